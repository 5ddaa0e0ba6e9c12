// Puts the button of a Dikala widget on a page: <script src="https://HOST/widget.js" data-key="dkw_…" async></script>
(() => {
  "use strict";
  const script = document.currentScript;
  if (!script || window.Dikala) return;
  const service = new URL(script.src).origin;
  const { key, element, lang } = script.dataset;
  const heard = {};
  const waiting = [];
  let isShown = false;

  const frame = document.createElement("iframe");
  const query = new URLSearchParams({ key: key ?? "", origin: location.origin });
  const language = lang ?? document.documentElement.lang;
  if (language) query.set("lang", language);
  if (element) query.set("place", "inline");
  frame.src = `${service}/web/v1/widget?${query}`;
  frame.allow = "microphone; autoplay";
  Object.assign(frame.style, {
    border: "0", width: "352px", height: "80px", visibility: "hidden", colorScheme: "normal", maxWidth: "100%",
  });
  const floating = { position: "fixed", right: "16px", bottom: "16px", zIndex: "2147483000", maxWidth: "calc(100vw - 32px)" };
  if (!element) Object.assign(frame.style, floating);

  const order = (command) => {
    if (isShown) frame.contentWindow.postMessage({ dikala: command }, service);
    else waiting.push(command);
  };

  const announce = (event, detail) => {
    for (const handler of heard[event] ?? []) handler(detail);
  };

  addEventListener("message", ({ source, origin, data }) => {
    if (source !== frame.contentWindow || origin !== service || data?.dikala !== 1) return;
    const { dikala, type, ...detail } = data;
    if (type === "size") {
      frame.style.height = `${detail.height}px`;
      // The page beside the button can be pressed.
      if (!element) frame.style.clipPath = `inset(0 0 0 ${Math.max(0, frame.offsetWidth - detail.width)}px)`;
      return;
    }
    if (type === "shown") {
      isShown = true;
      frame.title = detail.title;
      frame.style.visibility = "visible";
      waiting.splice(0).forEach(order);
    }
    announce(type === "shown" ? "ready" : type, detail);
  });

  window.Dikala = {
    // Begins a call, as a press on the button does.
    start: () => order("start"),
    // Ends the call.
    end: () => order("end"),
    // Calls `handler` at each `event`: ready, started, turn, function, ended, error. Returns a function that takes it back.
    on: (event, handler) => {
      const all = (heard[event] ??= new Set());
      all.add(handler);
      return () => all.delete(handler);
    },
  };

  const put = () => {
    const place = element ? document.querySelector(element) : document.body;
    if (!place) return console.warn(`Dikala: there is no element ${element} for the button.`);
    place.append(frame);
    setTimeout(() => {
      if (!isShown) console.warn("Dikala: the button is not shown. Look at the widget's key, and whether this page's origin is one of its origins.");
    }, 15000);
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", put);
  else put();
})();
