# mypy: ignore-errors
"""Writes one of our tiny models as a GGUF file, the form that llama.cpp reads.

    python to_gguf.py MODEL_FOLDER FILE.gguf

llama.cpp's own converter knows tokenizers by a list of hashes, and a tokenizer made by us is on no list. It needs numpy
and gguf, not torch: the weights are read from the file as they lie there.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from template import adapted

# How llama.cpp cuts a text before it merges: single digits, as our tokenizer does. It differs in runs of marks and of
# white space, where our tokenizer has no merges that would show.
CUTS = "qwen2"

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensors(file: Path) -> Iterator[tuple[str, Any]]:
    """Names and values of a safetensors file in bfloat16: a length, a header in JSON, the values."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, about in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        if about["dtype"] != "BF16":
            raise SystemExit(f"{file}: {name} is {about['dtype']}, and only BF16 can be read")
        first, end = about["data_offsets"]
        halves = np.frombuffer(data[start + first : start + end], dtype="<u2")
        # bfloat16 is the upper half of a float32.
        yield name, (halves.astype("<u4") << 16).view("<f4").reshape(about["shape"])


def named(name: str) -> str:
    """What llama.cpp calls a tensor."""
    stem = name.removesuffix(".weight")
    if stem in OUTSIDE:
        return f"{OUTSIDE[stem]}.weight"
    _, _, number, rest = stem.split(".", 3)
    return f"blk.{number}.{LAYER[rest]}.weight"


def turned(weight: Any, heads: int) -> Any:
    """Queries and keys with the pairs that RoPE turns side by side: transformers has them half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_tokenizer(writer: Any, folder: Path, end: int) -> None:
    """The byte-level BPE tokenizer and the chat template."""
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kinds = {
        a["id"]: gguf.TokenType.CONTROL if a["special"] else gguf.TokenType.USER_DEFINED
        for a in content["added_tokens"]
    }
    pieces = {number: piece for piece, number in content["model"]["vocab"].items()}
    pieces |= {a["id"]: a["content"] for a in content["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(CUTS)
    writer.add_token_list([pieces[number] for number in range(len(pieces))])
    writer.add_token_types([kinds.get(number, gguf.TokenType.NORMAL) for number in range(len(pieces))])
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    )
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(adapted((folder / "chat_template.jinja").read_text(encoding="utf-8").strip()))


def convert(folder: Path, target: Path) -> None:
    """Write the file."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    for add in (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count):
        add(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    add_tokenizer(writer, folder, config["eos_token_id"])
    for name, weight in tensors(folder / "model.safetensors"):
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = turned(weight, heads if "q_proj" in name else shared)
        writer.add_tensor(named(name), np.ascontiguousarray(weight, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: to_gguf.py MODEL_FOLDER FILE.gguf")
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
