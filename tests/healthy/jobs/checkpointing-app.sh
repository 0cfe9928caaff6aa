# An application that checkpoints on SIGUSR1 and starts again from its checkpoint.
# needs: python
cat > app.py <<'P'
import os, signal, sys, time
state = {"step": 0, "stop": False}
if os.path.exists("state"):
    state["step"] = int(open("state").read()); print("restarted from checkpoint at step", state["step"])
def save(signum, frame):
    print("caught signal", signal.Signals(signum).name, "- writing checkpoint and leaving", flush=True); state["stop"] = True
signal.signal(signal.SIGUSR1, save)
while state["step"] < 60 and not state["stop"]:
    state["step"] += 1; time.sleep(0.02)
    if state["step"] % 10 == 0: print(f"step {state['step']}/60 residual {1 / state['step']:.4f}", flush=True)
open("state", "w").write(str(state["step"])); sys.exit(0)
P
"$PY" app.py & app=$!
sleep 0.6; kill -USR1 $app; wait $app
"$PY" app.py
