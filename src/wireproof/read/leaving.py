"""What a conversation that is left consists of: its steps, lengths and pauses.

The conversations of `scenarios/conversations/cancel.py` send by it, and `aborts` reads by it.
"""

#: How long a server may take to notice (seconds).
LIMIT = 5.0
#: The pauses between our looks at the gauge (seconds). The last ones are long: llama.cpp looks for the client of a
#: plain answer only when nothing else has happened for a second, and a look is something.
PAUSES = (*[0.1] * 10, *[1.3] * 3)
#: Tokens of the answer that we leave.
LONG_TOKENS = 2000
#: Tokens of the control, which is read to its end.
CONTROL_TOKENS = 64
#: A model that may stop by itself proves an abort only when the end comes so soon after we left (seconds).
SHORTLY = 0.5
#: Pauses around the probes of the black box (seconds).
SETTLE, BETWEEN = 0.5, 0.2
#: How long we wait for a probe: one that is queued behind the streams may wait for their end (seconds).
PATIENCE = 10.0
#: Pause between looks at the GPUs: what they show is about the last second (seconds).
GPU_PERIOD = 1.0
#: How often we look at them after we left, and how far their use must rise to be a witness (percentage points).
GPU_LOOKS, GPU_RISE = 5, 30.0

# -- steps ------------------------------------------------------------------------------

REST = "rest"  # a look at the gauges, until they are quiet
BASELINE = "baseline"  # the look that counts as quiet
SETTLED = "settled"  # quiet again after the control
LEFT = "left"  # the request that we leave
DURING = "during"  # a look while it is served
AFTER = "after"  # looks after we left
END = "end"  # the last look
CONTROL = "control"  # a short request that is read to its end
CALM = "calm"  # a short request, alone
BUSY = "busy"  # the same beside the streams
AGAIN = "again"  # the same after we left them
FILLING = "filling"  # looks while streams fill the server
FILLED = "filled"  # the look that shows a queue
HOLDER = "holder"  # a stream that fills the server
