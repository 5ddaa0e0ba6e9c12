// The button of a widget, in its frame on a website. Follows `voice.js` in one file.
const widgetFrame = (place) => {
  // Opened as a page of its own, it belongs to no website.
  if (parent === window) return;
  const { key, origin, script, words, calls } = place.dataset;
  const says = textsOf(words);
  const [start, panel, state, level, log, end] =
    ["start", "panel", "state", "level", "log", "end"].map((name) => document.getElementById(name));
  // The website: the origin that the service has admitted. Messages to another one do not arrive.
  const tell = (message) => parent.postMessage({ dikala: 1, ...message }, origin);
  const fits = () => {
    const { offsetWidth: width, offsetHeight: height } = document.getElementById("widget");
    tell({ type: "size", width, height });
  };
  if (place.dataset.color) document.documentElement.style.setProperty("--accent", place.dataset.color);

  let call = null;

  const show = (text) => { state.textContent = text; };

  const opened = (is) => {
    start.hidden = is;
    end.hidden = level.hidden = !is;
    panel.hidden = false;
    fits();
    // A visitor who types on the website stays there.
    if (document.hasFocus()) (is ? end : start).focus();
  };

  const received = (message) => {
    switch (message.type) {
      case "ready":
        show(says.ready);
        tell({ type: "started", callId: message.callId });
        break;
      case "turn": {
        const item = turnItem(log, message);
        item.querySelector(".who").textContent = says[message.role] ?? message.role;
        item.scrollIntoView({ block: "nearest" });
        tell({ type: "turn", role: message.role, text: message.text, final: message.final });
        break;
      }
      case "function": tell({ type: "function", name: message.name, status: message.status }); break;
      case "ended": tell({ type: "ended", reason: message.reason }); break;
    }
  };

  // The microphone first: a refused one must not cost the visitor a call.
  const token = async (ready) => {
    await ready;
    const body = JSON.stringify({ key, origin });
    const answer = await fetch(calls, { method: "POST", headers: { "content-type": "application/json" }, body });
    const made = await answer.json();
    if (answer.ok) return made.token;
    throw new CallFault(answer.status === 429 ? "limit" : "unavailable");
  };

  const begin = () => {
    if (call) return;
    log.replaceChildren();
    let isTold = false;
    let isReady = false;
    const mine = new VoiceCall(script, {
      message: (message) => {
        isTold ||= message.type === "ended";
        isReady ||= message.type === "ready";
        received(message);
      },
      level: (peak) => { level.value = peak; },
      over: (end) => {
        call = null;
        // The service may refuse a call that has a token, for example if all lines are busy.
        const isRefused = end === "lost" && !isReady;
        const name = end in says && !isRefused ? end : isReady ? "ended" : "unavailable";
        opened(false);
        show(says[name]);
        if (isTold) return;
        if (name === "ended") tell({ type: "ended", reason: "normal" });
        else tell({ type: "error", code: name, message: says[name] });
      },
    });
    call = mine;
    opened(true);
    show(says.connecting);
    mine.begin(token);
  };

  start.addEventListener("click", begin);
  end.addEventListener("click", () => call?.hangUp());
  addEventListener("message", ({ source, origin: from, data }) => {
    if (source !== parent || from !== origin) return;
    if (data?.dikala === "start") begin();
    if (data?.dikala === "end") call?.hangUp();
  });
  new ResizeObserver(fits).observe(document.getElementById("widget"));
  tell({ type: "shown", title: says.title });
  fits();
};

const widgetPlace = typeof document === "undefined" ? null : document.querySelector("[data-widget]");
if (widgetPlace) widgetFrame(widgetPlace);
