// Talks to an agent from its page, and looks after its form. The same file is the audio worklet: it takes the microphone and plays the agent.
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

const page = () => {
  const place = document.getElementById("talk");
  if (!place) return;
  const { words, path } = place.dataset;
  const says = Object.fromEntries(words.split("\n").map((line) => line.split("\t")));
  const find = (name) => place.querySelector(`[data-talk="${name}"]`);
  const [begin, end, keys, state, level, log, link] =
    ["begin", "end", "keys", "state", "level", "log", "link"].map(find);
  const form = document.querySelector(`form[action="${path}"]`);
  const filled = () => new URLSearchParams(new FormData(form)).toString();
  const loaded = filled();
  let isSent = false;
  // A chat opens beside the form.
  form.addEventListener("submit", (event) => { isSent = event.submitter?.formTarget !== "_blank"; });
  addEventListener("beforeunload", (event) => {
    if (!isSent && filled() !== loaded) event.preventDefault();
  });
  const prompt = form.elements.systemPrompt;
  const length = document.createElement("p");
  length.className = "hint";
  prompt.after(length);
  const measure = () => { length.textContent = says.length.replace("{count}", prompt.value.length); };
  prompt.addEventListener("input", measure);
  measure();

  // The call that goes on; handlers of an earlier one do nothing.
  let call = null;

  const show = (text) => { state.textContent = text; };

  const running = (is) => {
    begin.hidden = is;
    end.hidden = keys.hidden = level.hidden = !is;
    (is ? end : begin).focus();
  };

  const bubble = (role, n) => {
    const known = log.querySelector(n ? `[data-n="${n}"]` : `[data-open="${role}"]`);
    const item = known ?? (n ? log.querySelector(`[data-open="${role}"]`) : null) ?? document.createElement("li");
    if (!item.isConnected) {
      item.className = `said ${role}`;
      const who = document.createElement("p");
      who.className = "who";
      who.textContent = says[role] ?? role;
      const text = document.createElement("p");
      text.className = "words";
      item.append(who, text);
      log.append(item);
    }
    if (n) {
      delete item.dataset.open;
      item.dataset.n = n;
    } else {
      item.dataset.open = role;
    }
    return item;
  };

  const turn = (message) => {
    const item = bubble(message.role, message.n);
    item.querySelector(".words").textContent = message.text;
    if (!message.final) return;
    const notes = [];
    if (message.latencyMs) notes.push(says.latency.replace("{ms}", message.latencyMs));
    if (message.interrupted) notes.push(says.interrupted);
    const who = item.querySelector(".who");
    who.textContent = [says[message.role] ?? message.role, ...notes].join(" · ");
  };

  const called = (message) => {
    const running = `[data-called="${CSS.escape(message.name)}"]`;
    let item = message.status === "running" ? null : log.querySelector(running);
    if (!item) {
      item = document.createElement("li");
      item.className = "step";
      item.append(document.createElement("code"));
      log.append(item);
    }
    if (message.status === "running") item.dataset.called = message.name;
    else delete item.dataset.called;
    item.firstChild.textContent = `${message.name}: ${says[message.status]}`;
    const detail = message.parameters ?? message.result ?? message.code;
    if (detail === undefined) return;
    const text = document.createElement("pre");
    text.textContent = typeof detail === "string" ? detail : JSON.stringify(detail, null, 1);
    item.append(text);
  };

  const silence = (stream) => { for (const track of stream.getTracks()) track.stop(); };

  const over = (mine, reason) => {
    if (call !== mine) return;
    call = null;
    // The microphone may be granted later than all else.
    mine.microphone?.then(silence, () => {});
    mine.audio?.close();
    mine.socket?.close();
    running(false);
    show(reason);
  };

  const received = (mine, message) => {
    switch (message.type) {
      case "ready":
        show(says.ready);
        link.href = `/dashboard/calls/${message.callId}`;
        link.hidden = false;
        break;
      case "clear": mine.line.port.postMessage("clear"); break;
      case "turn": turn(message); break;
      case "function": called(message); break;
      case "ended": over(mine, says[`because.${message.reason}`] ?? says.ended); break;
    }
  };

  // An error in words of this page.
  class Told extends Error {}

  const microphone = async () => {
    try {
      const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
      return await navigator.mediaDevices.getUserMedia({ audio });
    } catch (error) {
      throw new Told(error.name === "NotAllowedError" ? says.refused : says.missing);
    }
  };

  const token = async () => {
    const body = new URLSearchParams(new FormData(form));
    body.set("callerNumber", place.querySelector("[name=callerNumber]").value);
    const answer = await fetch(`${path}/talk`, { method: "POST", body });
    if (answer.status === 422) throw new Told(says.wrong);
    if (!answer.ok) throw new Told(says.unavailable);
    return (await answer.json()).token;
  };

  const connect = (mine, stream, secret) => {
    const { audio } = mine;
    const line = new AudioWorkletNode(audio, "line", { outputChannelCount: [1] });
    audio.createMediaStreamSource(stream).connect(line).connect(audio.destination);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/web/v1/call?token=${secret}`, "dikala.web.v1");
    socket.binaryType = "arraybuffer";
    Object.assign(mine, { line, socket });
    line.port.onmessage = ({ data }) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > unsentMax) return over(mine, says.lost);
      if (data.played) return socket.send(JSON.stringify({ type: "played", ms: data.played }));
      let peak = 0;
      for (const sample of data) peak = Math.max(peak, Math.abs(sample));
      level.value = peak / 32768;
      socket.send(data.buffer);
    };
    socket.onmessage = ({ data }) => {
      if (call !== mine) return;
      if (typeof data === "string") received(mine, JSON.parse(data));
      else line.port.postMessage(new Int16Array(data));
    };
    socket.onclose = () => over(mine, says.lost);
  };

  const start = async () => {
    const mine = {};
    call = mine;
    log.replaceChildren();
    link.hidden = true;
    running(true);
    show(says.connecting);
    try {
      if (!isSecureContext || !navigator.mediaDevices) throw new Told(says.insecure);
      // The context begins within the click, and everything else at once.
      mine.audio = new AudioContext({ latencyHint: "interactive" });
      mine.microphone = microphone();
      const [stream, secret] = await Promise.all([
        mine.microphone,
        token(),
        mine.audio.audioWorklet.addModule(place.dataset.script),
      ]);
      if (call === mine) connect(mine, stream, secret);
    } catch (error) {
      over(mine, error instanceof Told ? error.message : says.unavailable);
    }
  };

  const send = (message) => {
    const { socket } = call ?? {};
    const is = socket?.readyState === WebSocket.OPEN;
    if (is) socket.send(JSON.stringify(message));
    return is;
  };

  for (const key of "123456789*0#") {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "secondary", textContent: key });
    button.dataset.key = key;
    keys.append(button);
  }
  begin.disabled = false;
  begin.addEventListener("click", start);
  end.addEventListener("click", () => {
    const mine = call;
    // A dead connection answers nothing.
    if (send({ type: "hangup" })) setTimeout(() => over(mine, says.ended), 2000);
    else over(mine, says.ended);
  });
  keys.addEventListener("click", ({ target }) => {
    const { key } = target.dataset;
    if (key) send({ type: "key", key });
  });
};

if (typeof registerProcessor === "function") worklet();
else page();
