// Talks to an agent from its page. The same file is the audio worklet: it takes the microphone and plays the agent.
"use strict";

// Of `dikala.web.v1`: 16-bit samples, mono.
const CALLER_RATE = 16000;
const AGENT_RATE = 24000;
const FRAME = CALLER_RATE / 50;

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
      this.cleared = false;
      this.played = 0;
      this.told = 0;
      this.port.onmessage = ({ data }) => {
        if (data === "clear") this.cleared = true;
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
        if (this.cleared && this.gain <= 0) {
          this.pieces = [];
          this.at = 0;
          this.cleared = false;
        }
        const sample = this.next();
        // Speech begins and breaks off within 10 ms, so that nothing clicks.
        const wanted = sample === null || this.cleared ? -1 : 1;
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
  const says = JSON.parse(words);
  const find = (name) => place.querySelector(`[data-talk="${name}"]`);
  const [begin, end, keys, state, level, log, link] =
    ["begin", "end", "keys", "state", "level", "log", "link"].map(find);
  const form = document.querySelector(`form[action="${path}"]`);
  const filled = () => new URLSearchParams(new FormData(form)).toString();
  const saved = filled();
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

  const over = (reason) => {
    if (!call) return;
    const { stream, audio, socket } = call;
    call = null;
    for (const track of stream?.getTracks() ?? []) track.stop();
    audio?.close();
    socket?.close();
    running(false);
    show(reason);
  };

  const received = (message) => {
    switch (message.type) {
      case "ready":
        show(says.ready);
        link.href = `/dashboard/calls/${message.callId}`;
        link.hidden = false;
        break;
      case "clear": call?.line.port.postMessage("clear"); break;
      case "turn": turn(message); break;
      case "function": called(message); break;
      case "ended": over(says.reasons[message.reason] ?? says.ended); break;
    }
  };

  const microphone = async () => {
    if (!navigator.mediaDevices) throw new Error(says.insecure);
    try {
      const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
      return await navigator.mediaDevices.getUserMedia({ audio });
    } catch (error) {
      throw new Error(error.name === "NotAllowedError" ? says.refused : says.missing);
    }
  };

  const token = async () => {
    const body = new URLSearchParams(saved === filled() ? { _token: form.elements._token.value } : filled());
    body.set("callerNumber", place.querySelector("[name=callerNumber]").value);
    const answer = await fetch(`${path}/talk`, { method: "POST", body });
    if (answer.status === 422) throw new Error(says.wrong);
    if (!answer.ok) throw new Error(says.unavailable);
    return (await answer.json()).token;
  };

  const start = async () => {
    call = {};
    log.replaceChildren();
    link.hidden = true;
    running(true);
    show(says.connecting);
    try {
      // The context begins within the click, and everything else at once.
      call.audio = new AudioContext({ latencyHint: "interactive" });
      const [stream, secret] = await Promise.all([
        microphone(),
        token(),
        call.audio.audioWorklet.addModule(place.dataset.script),
      ]);
      if (!call) return stream.getTracks().forEach((track) => track.stop());
      call.stream = stream;
      call.line = new AudioWorkletNode(call.audio, "line", { outputChannelCount: [1] });
      call.audio.createMediaStreamSource(stream).connect(call.line).connect(call.audio.destination);
      const scheme = location.protocol === "https:" ? "wss:" : "ws:";
      const socket = new WebSocket(`${scheme}//${location.host}/web/v1/call?token=${secret}`, "dikala.web.v1");
      socket.binaryType = "arraybuffer";
      call.socket = socket;
      call.line.port.onmessage = ({ data }) => {
        if (socket.readyState !== WebSocket.OPEN) return;
        if (data.played) return socket.send(JSON.stringify({ type: "played", ms: data.played }));
        let peak = 0;
        for (const sample of data) peak = Math.max(peak, Math.abs(sample));
        level.value = peak / 32768;
        socket.send(data.buffer);
      };
      socket.onmessage = ({ data }) => {
        if (typeof data === "string") received(JSON.parse(data));
        else call?.line.port.postMessage(new Int16Array(data));
      };
      socket.onclose = () => over(says.lost);
    } catch (error) {
      over(error.message);
    }
  };

  begin.disabled = false;
  begin.addEventListener("click", start);
  end.addEventListener("click", () => {
    call?.socket?.readyState === WebSocket.OPEN
      ? call.socket.send(JSON.stringify({ type: "hangup" }))
      : over(says.ended);
  });
  keys.addEventListener("click", ({ target }) => {
    const { key } = target.dataset;
    if (key && call?.socket) call.socket.send(JSON.stringify({ type: "key", key }));
  });
};

if (typeof registerProcessor === "function") worklet();
else page();
