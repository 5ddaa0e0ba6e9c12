// A call from the browser. The same file is the audio worklet, which takes the microphone and plays the agent.
"use strict";

// Of `dikala.web.v1`: 16-bit samples, mono.
const CALLER_RATE = 16000;
const AGENT_RATE = 24000;
const FRAME = CALLER_RATE / 50;
// Bytes of 15 s that the network does not take.
const unsentMax = 15 * 2 * CALLER_RATE;

const worklet = () => {
  const fade = Math.round(sampleRate / 100);
  class Line extends AudioWorkletProcessor {
    constructor() {
      super();
      // The microphone: the mean of the samples that fall into each sample of the call.
      this.sum = 0;
      this.count = 0;
      this.position = 0;
      this.frame = new Int16Array(FRAME);
      this.filled = 0;
      // The agent: pieces, and the place in the first of them.
      this.pieces = [];
      this.at = 0;
      this.gain = 0;
      // Pieces that are dropped once the speech has faded.
      this.dropped = 0;
      this.played = 0;
      this.told = 0;
      this.port.onmessage = ({ data }) => {
        if (data === "clear") this.dropped = this.pieces.length;
        else this.pieces.push(data);
      };
    }

    hear(input) {
      for (const sample of input) {
        this.sum += sample;
        this.count += 1;
        this.position += CALLER_RATE;
        if (this.position < sampleRate) continue;
        this.position -= sampleRate;
        const mean = Math.max(-1, Math.min(1, this.sum / this.count));
        this.sum = this.count = 0;
        this.frame[this.filled++] = Math.round(mean * 32767);
        if (this.filled < FRAME) continue;
        this.port.postMessage(this.frame);
        this.frame = new Int16Array(FRAME);
        this.filled = 0;
      }
    }

    // The next sample of the agent, between two samples of the call; null if there is none.
    next() {
      while (this.pieces.length && this.at >= this.pieces[0].length) {
        this.at -= this.pieces[0].length;
        this.pieces.shift();
        if (this.dropped) this.dropped -= 1;
      }
      const piece = this.pieces[0];
      if (!piece) return null;
      const here = Math.floor(this.at);
      const one = piece[here];
      const other = here + 1 < piece.length ? piece[here + 1] : this.pieces[1]?.[0] ?? one;
      const sample = one + (other - one) * (this.at - here);
      this.at += AGENT_RATE / sampleRate;
      this.played += 1000 / sampleRate;
      return sample / 32768;
    }

    process([input], [output]) {
      if (input[0]) this.hear(input[0]);
      const out = output[0];
      for (let n = 0; n < out.length; n++) {
        if (this.dropped && this.gain <= 0) {
          this.pieces.splice(0, this.dropped);
          this.at = this.dropped = 0;
        }
        const sample = this.next();
        // Speech begins and breaks off within 10 ms, so that nothing clicks.
        const wanted = sample === null || this.dropped ? -1 : 1;
        this.gain = Math.max(0, Math.min(1, this.gain + wanted / fade));
        out[n] = (sample ?? 0) * this.gain;
      }
      for (const other of output.slice(1)) other.set(out);
      if (this.played - this.told >= 100) {
        this.told = this.played;
        this.port.postMessage({ played: Math.round(this.played) });
      }
      return true;
    }
  }
  registerProcessor("line", Line);
};

// An end of a call that its page has words for.
class CallFault extends Error {}

const silence = (stream) => { for (const track of stream.getTracks()) track.stop(); };

const microphone = async () => {
  try {
    const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new CallFault(error.name === "NotAllowedError" ? "refused" : "missing");
  }
};

// One call. `script` is the address of this file. Of `on`, `message` gets the messages of the service, `level` how loud the caller
// speaks (0 to 1), and `over` the name of the end, once.
class VoiceCall {
  constructor(script, on) {
    this.script = script;
    this.on = on;
    this.isOver = false;
  }

  // `token` resolves to the token of the call. It gets a promise that resolves once the microphone is there and sound can be heard.
  async begin(token) {
    try {
      if (!isSecureContext || !navigator.mediaDevices) throw new CallFault("insecure");
      // The context begins within the click, and everything else at once.
      this.audio = new AudioContext({ latencyHint: "interactive" });
      this.microphone = microphone();
      const granted = this.microphone.then((stream) => {
        if (this.isOver) throw new CallFault("ended");
        return stream;
      });
      const [stream, secret] = await Promise.all([
        this.microphone,
        token(granted.then(() => this.sounding())),
        this.audio.audioWorklet.addModule(this.script),
      ]);
      if (!this.isOver) this.connect(stream, secret);
    } catch (error) {
      this.over(error instanceof CallFault ? error.message : "unavailable");
    }
  }

  // A page that was not pressed may be silent: a call would then be heard by nobody.
  async sounding() {
    if (this.audio.state === "running") return;
    await Promise.race([this.audio.resume(), new Promise((resolve) => setTimeout(resolve, 1000))]);
    if (this.audio.state !== "running") throw new CallFault("press");
  }

  connect(stream, secret) {
    const line = new AudioWorkletNode(this.audio, "line", { outputChannelCount: [1] });
    this.audio.createMediaStreamSource(stream).connect(line).connect(this.audio.destination);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/web/v1/call?token=${secret}`, "dikala.web.v1");
    socket.binaryType = "arraybuffer";
    Object.assign(this, { line, socket });
    line.port.onmessage = ({ data }) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > unsentMax) return this.over("lost");
      if (data.played) return this.send({ type: "played", ms: data.played });
      let peak = 0;
      for (const sample of data) peak = Math.max(peak, Math.abs(sample));
      this.on.level(peak / 32768);
      socket.send(data.buffer);
    };
    socket.onmessage = ({ data }) => {
      if (this.isOver) return;
      if (typeof data === "string") this.received(JSON.parse(data));
      else line.port.postMessage(new Int16Array(data));
    };
    socket.onclose = () => this.over("lost");
  }

  received(message) {
    if (message.type === "clear") return this.line.port.postMessage("clear");
    this.on.message(message);
    if (message.type === "ended") this.over(`because.${message.reason}`);
  }

  send(message) {
    const is = this.socket?.readyState === WebSocket.OPEN;
    if (is) this.socket.send(JSON.stringify(message));
    return is;
  }

  hangUp() {
    // A dead connection answers nothing.
    if (this.send({ type: "hangup" })) setTimeout(() => this.over("ended"), 2000);
    else this.over("ended");
  }

  over(name) {
    if (this.isOver) return;
    this.isOver = true;
    // The microphone may be granted later than all else.
    this.microphone?.then(silence, () => {});
    this.audio?.close();
    this.socket?.close();
    this.on.over(name);
  }
}

// Texts of a page: a line with name, tab and text for each.
const textsOf = (lines) => Object.fromEntries(lines.split("\n").map((line) => line.split("\t")));

// The entry of a turn in a conversation: the one with its number, or the one that is still being spoken.
const turnItem = (log, message) => {
  const { role, n } = message;
  const open = log.querySelector(`[data-open="${role}"]`);
  const item = (n ? log.querySelector(`[data-n="${n}"]`) : null) ?? open ?? document.createElement("li");
  if (!item.isConnected) {
    item.className = `said ${role}`;
    for (const name of ["who", "words"]) {
      const part = document.createElement("p");
      part.className = name;
      item.append(part);
    }
    log.append(item);
  }
  if (n) {
    delete item.dataset.open;
    item.dataset.n = n;
  } else {
    item.dataset.open = role;
  }
  item.querySelector(".words").textContent = message.text;
  return item;
};

if (typeof registerProcessor === "function") worklet();
