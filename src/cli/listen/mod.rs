//! `dikala listen`: shows a tenant's events live and forwards them, signed, to the developer's machine without a
//! tunnel. [`frames`] reads the stream, [`forward`] forwards events.

mod forward;
mod frames;

use std::time::Duration;

use actix_web::http::{
    Method,
    header::{HeaderName, HeaderValue},
};
use clap::Args;
use dikala_actors::{
    outbound::{ErrorKind, StreamingAnswer, open},
    runtime::clock::{Clock, SystemClock},
    webhooks::signature::Signer,
};
use dikala_entities::{EventId, EventKind, Secret};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::timeout;

use self::{
    forward::{ForwardOutcome, ForwardTo, ForwardedEvent, Forwarder},
    frames::{ServerEvent, ServerEvents},
};
use super::{
    CliError,
    client::{Service, ServiceArgs},
    escapes::escaped,
    note::note,
    output,
};
use crate::app::wait_for_signal;

const PATH: &str = "/events/stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Longest silence before the connection counts as lost; the service sends a frame every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(35);
/// Delay before the first reconnection; each further attempt doubles it.
const RECONNECT: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// Bytes read of an error's body, within [`CONNECT_WITHIN`].
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Options of `dikala listen`.
#[derive(Debug, Args)]
pub struct ListenOptions {
    #[command(flatten)]
    service: ServiceArgs,
    /// Where each event is posted to, such as http://localhost:3000/hooks.
    #[arg(long, value_name = "URL")]
    forward_to: Option<ForwardTo>,
    /// The secret that signs what is passed on; without it one that belongs to the key, which is printed.
    #[arg(long, value_parser = |text: &str| Ok::<_, String>(Secret::new(text)))]
    secret: Option<Secret>,
    /// Begin after this event instead of now.
    #[arg(long, value_name = "evt_…")]
    after: Option<EventId>,
}

/// An event as `--json` prints it, one per line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: &'a str,
    event: &'a str,
    is_test: bool,
    body: &'a RawValue,
    /// Null unless events are forwarded.
    forwarded: Option<ForwardOutcome>,
}

enum FollowEnd {
    /// Standard output is closed.
    Unread,
    /// An error that a retry would not solve.
    For(CliError),
    /// A lost connection; a retry may help.
    Lost(CliError),
}

/// Follows until Ctrl-C. After a lost connection it resumes after the last event.
pub async fn run(options: ListenOptions, as_json: bool) -> Result<(), CliError> {
    let service = Service::new(options.service)?;
    let secret = options.secret.unwrap_or_else(|| secret_of(&service));
    let forwarder = options.forward_to.map(|target| {
        note(format_args!(
            "passing events on to {target}, signed with the secret {}",
            secret.expose()
        ));
        Forwarder::new(target, &secret, service.client.clone())
    });
    let mut listener = Listener {
        service,
        forwarder,
        last: options.after,
        connected: false,
        as_json,
    };
    tokio::select! {
        ended = listener.run() => ended,
        () = wait_for_signal() => Ok(()),
    }
}

/// Derived from the key, so that it is the same at every start; it does not reveal the key.
fn secret_of(service: &Service) -> Secret {
    let key = Signer::new(&Secret::new(service.key.expose()));
    let signature = key.service_signature(b"what dikala listen passes on");
    Secret::new(signature.replace("sha256=", "lsn_"))
}

struct Listener {
    service: Service,
    forwarder: Option<Forwarder>,
    /// Id of the last event received.
    last: Option<EventId>,
    /// True after the first successful connection.
    connected: bool,
    as_json: bool,
}

impl Listener {
    async fn run(&mut self) -> Result<(), CliError> {
        let mut wait = RECONNECT;
        loop {
            let began = std::time::Instant::now();
            match self.follow().await {
                FollowEnd::Unread => return Ok(()),
                FollowEnd::For(error) => return Err(error),
                FollowEnd::Lost(error) if !self.connected => return Err(error),
                FollowEnd::Lost(error) => {
                    let error = error.to_string();
                    note(format_args!("dikala: {}; trying again", escaped(&error)));
                    // A connection that lasted resets the backoff.
                    if began.elapsed() > RECONNECT_MAX {
                        wait = RECONNECT;
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RECONNECT_MAX);
                }
            }
        }
    }

    /// Reads one stream to its end.
    async fn follow(&mut self) -> FollowEnd {
        let mut stream = match self.connect().await {
            Ok(stream) => stream,
            Err(ended) => return ended,
        };
        let mut frames = ServerEvents::default();
        let mut opened = false;
        loop {
            let piece = match stream.chunk(SILENCE_MAX).await {
                Ok(Some(piece)) => piece,
                Ok(None) => {
                    return FollowEnd::Lost(CliError::Failed(
                        "the service ended the stream".to_owned(),
                    ));
                }
                Err(kind) => return FollowEnd::Lost(self.service.unreachable(kind)),
            };
            if let Err(endless) = frames.push(&piece) {
                return FollowEnd::For(CliError::Failed(endless.to_string()));
            }
            while let Some(frame) = frames.next() {
                if !opened && !frame.is_opening {
                    return FollowEnd::For(CliError::Failed(format!(
                        "{} answers, but with no stream of events; is it the public address of the service?",
                        self.service
                    )));
                }
                if !opened {
                    opened = true;
                    self.announce();
                }
                match self.take(frame).await {
                    Ok(true) => {}
                    Ok(false) => return FollowEnd::Unread,
                    Err(error) => return FollowEnd::For(error),
                }
            }
        }
    }

    /// Says on standard error that events follow: standard output holds events only.
    fn announce(&mut self) {
        if self.connected {
            note("following again");
        } else {
            note(format_args!("following {}; Ctrl-C ends it", self.service));
        }
        self.connected = true;
    }

    async fn connect(&self) -> Result<StreamingAnswer, FollowEnd> {
        let mut head = self.service.head(Method::GET, PATH);
        if let Some(last) = self.last {
            let id = HeaderValue::try_from(last.to_string()).expect("an id is letters and digits");
            head.headers.insert(LAST_EVENT_ID, id);
        }
        let answer = open(&self.service.client, head, CONNECT_WITHIN).await;
        let mut stream = answer.map_err(|kind| FollowEnd::Lost(self.service.unreachable(kind)))?;
        if stream.status == 200 {
            return Ok(stream);
        }
        let body = timeout(CONNECT_WITHIN, read(&mut stream)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let refusal = self.service.refusal(stream.status, &body);
        Err(match stream.status {
            429 | 500..=599 => FollowEnd::Lost(refusal),
            _ => FollowEnd::For(refusal),
        })
    }

    /// Returns false if standard output is closed.
    async fn take(&mut self, frame: ServerEvent) -> Result<bool, CliError> {
        let mut read = true;
        let id = frame
            .id
            .as_deref()
            .and_then(|id| id.parse::<EventId>().ok());
        if let (Some(id), Some(kind), Some(body)) = (id, &frame.event, &frame.data) {
            let event = ForwardedEvent {
                id,
                kind,
                body,
                is_test: frame.is_test,
            };
            let is_for_webhooks = event.kind != EventKind::CallTurn.as_str();
            let forwarded = match &self.forwarder {
                Some(forwarder) if is_for_webhooks => {
                    Some(forwarder.pass(event.clone(), SystemClock.now()).await)
                }
                _ => None,
            };
            read = self.show(&event, forwarded)?;
        }
        self.last = id.or(self.last);
        Ok(read)
    }

    fn show(
        &self,
        event: &ForwardedEvent<'_>,
        forwarded: Option<ForwardOutcome>,
    ) -> Result<bool, CliError> {
        if !self.as_json {
            return output::more(&readable(event, forwarded.as_ref()));
        }
        let line = serde_json::from_str(event.body).and_then(|body| {
            serde_json::to_string(&Line {
                id: &event.id.to_string(),
                event: event.kind,
                is_test: event.is_test,
                body,
                forwarded,
            })
        });
        output::more(&line.map_err(|error| CliError::Failed(error.to_string()))?)
    }
}

async fn read(answer: &mut StreamingAnswer) -> Result<Vec<u8>, ErrorKind> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk(CONNECT_WITHIN).await? {
        body.extend_from_slice(&piece);
        if body.len() > REFUSAL_BYTES_MAX {
            break;
        }
    }
    Ok(body)
}

/// An event in one line, such as "03:30:04  call.ended  evt_…  call_…  204 in 3 ms". It shows no more of the
/// payload, which holds what callers said.
fn readable(event: &ForwardedEvent<'_>, forwarded: Option<&ForwardOutcome>) -> String {
    #[derive(Default, Deserialize)]
    struct Body {
        timestamp: String,
        #[serde(default)]
        data: Data,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        #[serde(default)]
        call_id: Option<String>,
    }
    let body: Body = serde_json::from_str(event.body).unwrap_or_default();
    let mut columns = vec![
        body.timestamp.get(11..19).unwrap_or("–").to_owned(),
        format!("{:15}", event.kind),
        event.id.to_string(),
    ];
    columns.extend(body.data.call_id);
    columns.extend(event.is_test.then(|| "sample".to_owned()));
    columns.extend(forwarded.map(|forwarded| {
        let ForwardOutcome {
            status,
            error,
            duration_ms,
        } = forwarded;
        match (status, error) {
            (Some(status), _) => format!("{status} in {duration_ms} ms"),
            (None, Some("connect")) => "not taken: nothing listens there".to_owned(),
            (None, error) => format!("not taken: {}", error.unwrap_or("no answer")),
        }
    }));
    columns.join("  ")
}
