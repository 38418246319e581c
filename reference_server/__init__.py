"""The bundled server: right by default, wrong on request. See app.py for memory, player.py for sockets."""
