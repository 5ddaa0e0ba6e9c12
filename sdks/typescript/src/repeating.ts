/** Sending again what failed in passing. */

/** Before the first, the second, … repeat, where the service does not name a time. */
const PAUSES_MS = [500, 2_000, 5_000];
/** Who is told to wait for longer is better told so than kept. */
const LONGEST_PAUSE_MS = 60_000;

type Send = (request: Request) => Promise<Response>;

/** Sends again after a lost connection, 429 and 503, and while a POST that was sent before still runs. */
export function repeating(send: Send, retries: number): Send {
  return async (request) => {
    if (request.method === "POST" && !request.headers.has("idempotency-key")) {
      request.headers.set("idempotency-key", crypto.randomUUID());
    }
    for (let repeat = 0; ; repeat += 1) {
      const last = repeat >= retries;
      const usual = PAUSES_MS[Math.min(repeat, PAUSES_MS.length - 1)]!;
      let pause: number | undefined;
      try {
        const response = await send(request.clone());
        pause = last ? undefined : await pauseAfter(request, response, usual);
        if (pause === undefined) {
          return response;
        }
        await response.body?.cancel();
      } catch (failure) {
        // Whether a DELETE was carried out cannot be told any more: its repeat would be a 404 either way.
        if (last || request.method === "DELETE") {
          throw failure;
        }
        pause = usual;
      }
      await sleep(pause, request.signal);
    }
  };
}

/** How long to wait before the request is sent again; nothing where its answer stands. */
async function pauseAfter(request: Request, response: Response, usual: number): Promise<number | undefined> {
  const passing =
    response.status === 429 ||
    (response.status === 503 && request.method !== "DELETE") ||
    (response.status === 409 && (await isInProgress(response)));
  if (!passing) {
    return undefined;
  }
  const seconds = response.headers.get("retry-after");
  const pause = seconds !== null && /^[0-9]{1,9}$/.test(seconds) ? Number(seconds) * 1_000 : usual;
  return pause > LONGEST_PAUSE_MS ? undefined : pause;
}

async function isInProgress(response: Response): Promise<boolean> {
  const text = await response.clone().text();
  return text.includes('"idempotency_in_progress"');
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal.aborted) {
      stop();
    } else {
      signal.addEventListener("abort", stop, { once: true });
    }
  });
}
