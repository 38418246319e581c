// Optional: filters the matrix and keeps the filter in the address (#?q=words&s=fail).
(function () {
  "use strict";
  var form = document.getElementById("filter");
  var found = document.getElementById("found");
  var rows = Array.prototype.slice.call(document.querySelectorAll("#rules tr[data-words]"));
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  function apply() {
    var words = form.q.value.toLowerCase().split(/\s+/).filter(Boolean), status = form.s.value, shown = 0;
    rows.forEach(function (row, i) {
      var ok = words.every(function (w) { return texts[i].indexOf(w) >= 0; }) &&
        (!status || row.dataset.words.split(" ").indexOf(status) >= 0);
      row.hidden = !ok;
      shown += ok ? 1 : 0;
    });
    document.querySelectorAll("#rules tbody").forEach(function (body) {
      body.hidden = !body.querySelector("tr[data-words]:not([hidden])");
    });
    found.textContent = words.length || status ? shown + " of " + rows.length + " rules" : "";
  }
  function read() {
    if (location.hash.slice(0, 2) !== "#?") { return; }
    var given = new URLSearchParams(location.hash.slice(2));
    form.q.value = given.get("q") || "";
    form.s.value = given.get("s") || "";
    apply();
  }
  form.addEventListener("input", function () {
    var kept = new URLSearchParams();
    if (form.q.value) { kept.set("q", form.q.value); }
    if (form.s.value) { kept.set("s", form.s.value); }
    history.replaceState(null, "", "#" + (kept.toString() ? "?" + kept : ""));
    apply();
  });
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("hashchange", read);
  form.hidden = false;
  read();
})();
