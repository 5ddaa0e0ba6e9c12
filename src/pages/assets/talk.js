// Talks to an agent from its page, and counts the letters of its prompt. Follows `voice.js` in one file.
const talkPage = (place) => {
  const { words, path } = place.dataset;
  const says = textsOf(words);
  const find = (name) => place.querySelector(`[data-talk="${name}"]`);
  const [begin, end, keys, state, level, log, link] =
    ["begin", "end", "keys", "state", "level", "log", "link"].map(find);
  const form = document.querySelector(`form[action="${path}"]`);
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

  const turn = (message) => {
    const notes = [says[message.role] ?? message.role];
    if (message.latencyMs) notes.push(says.latency.replace("{ms}", message.latencyMs));
    if (message.interrupted) notes.push(says.interrupted);
    turnItem(log, message).querySelector(".who").textContent = notes.join(" · ");
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

  const received = (message) => {
    switch (message.type) {
      case "ready":
        show(says.ready);
        link.href = `/dashboard/calls/${message.callId}`;
        link.hidden = false;
        break;
      case "turn": turn(message); break;
      case "function": called(message); break;
    }
  };

  const number = () => place.querySelector("[name=callerNumber]");
  const numberField = () => number().closest(".field");
  const blankNumber = numberField().outerHTML;
  // Shows the field of the caller's number with or without errors, as it was typed.
  const showNumber = (html) => {
    const typed = number().value;
    numberField().outerHTML = html;
    number().value = typed;
  };

  // Shows what is wrong with the caller's number beside it; returns the name of the text that says what to do.
  const refused = async (answer) => {
    const { callerField, isFormWrong } = await answer.json();
    if (callerField) showNumber(callerField);
    return isFormWrong ? "wrong" : "wrongCaller";
  };

  // The name of the text for an error page, whose title may say why: a role that was lowered, or a page that is out of date.
  const unmade = async (answer) => {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.redirected || page.querySelector('a[href$="/sign-in"]')) return "signedOut";
    if (answer.status !== 403) return "unavailable";
    says.forbidden = page.querySelector("h1").textContent;
    return "forbidden";
  };

  const token = async () => {
    const body = new URLSearchParams(new FormData(form));
    body.set("callerNumber", number().value);
    const answer = await fetch(`${path}/talk`, { method: "POST", body });
    if (answer.status === 422) throw new CallFault(await refused(answer));
    if (!answer.ok || answer.redirected) throw new CallFault(await unmade(answer));
    return (await answer.json()).token;
  };

  const start = () => {
    log.replaceChildren();
    link.hidden = true;
    if (number().hasAttribute("aria-invalid")) showNumber(blankNumber);
    running(true);
    show(says.connecting);
    const mine = new VoiceCall(place.dataset.script, {
      message: received,
      level: (peak) => { level.value = peak; },
      over: (name) => {
        if (call !== mine) return;
        call = null;
        running(false);
        show(says[name] ?? says.ended);
        if (name === "wrongCaller") number().focus();
      },
    });
    call = mine;
    mine.begin(token);
  };

  for (const key of "123456789*0#") {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "secondary", textContent: key });
    button.dataset.key = key;
    keys.append(button);
  }
  begin.disabled = false;
  begin.addEventListener("click", start);
  end.addEventListener("click", () => call?.hangUp());
  keys.addEventListener("click", ({ target }) => {
    const { key } = target.dataset;
    if (key) call?.send({ type: "key", key });
  });
};

const talkPlace = typeof document === "undefined" ? null : document.getElementById("talk");
if (talkPlace) talkPage(talkPlace);
