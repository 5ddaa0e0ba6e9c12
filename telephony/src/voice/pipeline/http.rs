//! The requests to the three endpoints, over HTTP. Each is cancelled by dropping it, which closes its connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{self, HeaderMap, HeaderValue},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    machine::PipelineMachine,
    sample_decoder::{SampleDecoder, refuse_kind},
    thoughts::ThoughtFilter,
    wire::{
        ChatDelta, EventLines, PipelineReply, PipelineRequest, error_code, read_chunk,
        read_transcript, wav,
    },
};
use crate::{
    USER_AGENT,
    trust::Trust,
    voice::common::{CloseReason, SessionInput, Transport, is_fatal, shown},
};

/// Time limit for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// Idle connections are kept for the next request.
const KEPT: Duration = Duration::from_secs(60);
/// The longest transcription, refusal, and stream of an answer, in bytes.
const TRANSCRIPT_MOST: usize = 256 * 1024;
const REFUSAL_MOST: usize = 16 * 1024;
const CHAT_MOST: usize = 4 * 1024 * 1024;
pub(super) type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;
type Events = mpsc::Sender<SessionInput<PipelineReply>>;

/// One of the three endpoints.
#[derive(Clone)]
pub(super) struct HttpEndpoint {
    /// The section of its settings.
    pub setting: &'static str,
    /// Complete.
    pub url: String,
    pub key: String,
    pub model: String,
}

/// The endpoints, as one session uses them.
#[derive(Clone)]
pub(super) struct PipelineHttp {
    pub client: HttpClient,
    pub stt: HttpEndpoint,
    pub llm: HttpEndpoint,
    pub tts: HttpEndpoint,
    /// The name of the agent's voice; empty for the server's usual one.
    pub voice: String,
    /// ISO 639-1.
    pub language: Option<String>,
}

/// A client that follows no redirects.
pub(super) fn client(trust: &Trust) -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_WITHIN));
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(Arc::unwrap_or_clone(trust.client_config()))
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(KEPT)
        .build(connector)
}

impl Transport<PipelineMachine> for PipelineHttp {
    fn carry(
        &self,
        connection: u32,
        mut outgoing: mpsc::Receiver<PipelineRequest>,
        events: Events,
    ) -> impl Future<Output = ()> + Send + 'static {
        let http = self.clone();
        async move {
            let Some(request) = outgoing.recv().await else {
                return;
            };
            let why = tokio::select! {
                done = http.exchange(request, connection, &events) => done.err(),
                _ = outgoing.recv() => None,
            };
            if let Some(why) = why {
                // Fails if the session is over.
                let _ = events.send(SessionInput::Closed { connection, why }).await;
            }
        }
    }
}

impl PipelineHttp {
    /// Carries out a request. Its answer goes to `events`, the end of it included.
    pub(super) async fn exchange(
        &self,
        request: PipelineRequest,
        connection: u32,
        events: &Events,
    ) -> Result<(), CloseReason> {
        let endpoint = match &request {
            PipelineRequest::Transcribe(_) => &self.stt,
            PipelineRequest::Chat { .. } => &self.llm,
            PipelineRequest::Speak { .. } => &self.tts,
        };
        let (kind, body) = self.body(&request);
        let answer = endpoint.ask(&self.client, kind, body).await?;
        let media_type = content_type(answer.headers());
        let body = answer.into_body();
        let replies = Replies { connection, events };
        let done = match request {
            PipelineRequest::Transcribe(_) => replies.transcript(body).await,
            PipelineRequest::Chat { .. } => replies.chat(body).await,
            PipelineRequest::Speak { .. } => replies.speech(body, &media_type).await,
        };
        done.map_err(|words| CloseReason::gone(&words))?;
        replies.send(PipelineReply::Done).await;
        Ok(())
    }

    /// The body of a request with its type.
    fn body(&self, request: &PipelineRequest) -> (String, Vec<u8>) {
        match request {
            PipelineRequest::Transcribe(samples) => {
                let mut fields = vec![
                    ("model", self.stt.model.as_str()),
                    ("response_format", "json"),
                ];
                fields.extend(
                    self.language
                        .as_deref()
                        .map(|language| ("language", language)),
                );
                multipart(&fields, &wav(samples))
            }
            PipelineRequest::Chat {
                messages,
                tools,
                is_plain,
            } => json_body(&chat_body(&self.llm.model, messages, tools, *is_plain)),
            PipelineRequest::Speak { text } => {
                let mut body =
                    json!({"model": self.tts.model, "input": text, "response_format": "pcm"});
                if !self.voice.is_empty() {
                    body["voice"] = json!(self.voice);
                }
                json_body(&body)
            }
        }
    }
}

/// A JSON body with its type.
pub(super) fn json_body(body: &Value) -> (String, Vec<u8>) {
    ("application/json".to_owned(), body.to_string().into_bytes())
}

/// A request for an answer of the language model.
pub(super) fn chat_body(model: &str, messages: &[Value], tools: &[Value], is_plain: bool) -> Value {
    let mut body = json!({"model": model, "messages": messages, "stream": true});
    if !is_plain {
        body["stream_options"] = json!({"include_usage": true});
    }
    if !tools.is_empty() {
        body["tools"] = json!(tools);
        body["tool_choice"] = json!("auto");
    }
    body
}

impl HttpEndpoint {
    /// Sends a request; returns the answer, of which the body may still be on its way.
    pub(super) async fn ask(
        &self,
        client: &HttpClient,
        kind: String,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, CloseReason> {
        let answer = client.request(self.post(kind, body)?).await;
        let answer = answer.map_err(|error| CloseReason::gone(&self.shown(&broken(&error))))?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(self.refusal(answer).await),
        }
    }

    fn post(&self, kind: String, body: Vec<u8>) -> Result<Request<Full<Bytes>>, CloseReason> {
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, kind)
            .header(header::USER_AGENT, USER_AGENT.product);
        if !self.key.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.key));
        }
        request.body(Full::from(body)).map_err(|_| CloseReason {
            is_final: true,
            words: format!("{0}.url or {0}.api_key cannot be sent", self.setting),
            ..CloseReason::default()
        })
    }

    /// The reason of a status that is no success.
    async fn refusal(&self, answer: Response<Incoming>) -> CloseReason {
        let status = answer.status().as_u16();
        let retry_after = retry_after(answer.headers());
        let mut body = answer.into_body();
        let body = whole(&mut body, REFUSAL_MOST).await.unwrap_or_default();
        let code = error_code(&body);
        let words = match (status, code.as_str()) {
            (300..400, _) => {
                format!("it answers with a redirect ({status}), which is not followed")
            }
            (_, "") => format!("it answers with status {status}"),
            (_, code) => format!("it answers with status {status} and the error {code}"),
        };
        CloseReason {
            refused: (400..500).contains(&status) && status != 429,
            is_final: matches!(status, 300..=399 | 401 | 403 | 404) || is_fatal(&code),
            words: self.shown(&words),
            retry_after,
        }
    }

    /// Words about the endpoint, without its key.
    fn shown(&self, words: &str) -> String {
        shown(words, &self.key)
    }
}

/// The place to which the answer to a request goes.
struct Replies<'a> {
    connection: u32,
    events: &'a Events,
}

impl Replies<'_> {
    /// Waits while the call has enough to play.
    async fn send(&self, reply: PipelineReply) {
        let message = SessionInput::Message {
            connection: self.connection,
            message: Box::new(reply),
        };
        // Fails if the session is over.
        let _ = self.events.send(message).await;
    }

    async fn transcript(&self, mut body: Incoming) -> Result<(), String> {
        let body = whole(&mut body, TRANSCRIPT_MOST).await?;
        let text = read_transcript(&body)?;
        self.send(PipelineReply::Transcript(text)).await;
        Ok(())
    }

    async fn chat(&self, body: Incoming) -> Result<(), String> {
        let mut stream = ChatStream::new(body);
        while let Some(delta) = stream.next().await? {
            self.send(PipelineReply::Chat(delta)).await;
        }
        Ok(())
    }

    async fn speech(&self, mut body: Incoming, media_type: &str) -> Result<(), String> {
        refuse_kind(media_type)?;
        let mut decoder = SampleDecoder::default();
        while let Some(bytes) = next(&mut body).await? {
            let samples = decoder.push(&bytes)?;
            self.send(PipelineReply::Audio(samples)).await;
        }
        Ok(())
    }
}

/// The language model's answer, part by part.
pub(super) struct ChatStream {
    body: Incoming,
    lines: EventLines,
    thoughts: ThoughtFilter,
    /// Events that have arrived.
    waiting: VecDeque<Vec<u8>>,
    received: usize,
    /// The last part of the answer has come. Faults behind it make no difference.
    is_finished: bool,
}

impl ChatStream {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            lines: EventLines::default(),
            thoughts: ThoughtFilter::default(),
            waiting: VecDeque::new(),
            received: 0,
            is_finished: false,
        }
    }

    /// The next part; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<ChatDelta>, String> {
        match self.part().await {
            Ok(None) if !self.is_finished => Err("its stream broke off".to_owned()),
            Err(_) if self.is_finished => Ok(None),
            part => part,
        }
    }

    async fn part(&mut self) -> Result<Option<ChatDelta>, String> {
        loop {
            while let Some(data) = self.waiting.pop_front() {
                if data == b"[DONE]" {
                    self.is_finished = true;
                    let content = self.thoughts.rest();
                    return Ok((!content.is_empty()).then(|| ChatDelta {
                        content,
                        ..ChatDelta::default()
                    }));
                }
                let mut delta = read_chunk(&data)?;
                let words = self.thoughts.push(&delta.content);
                delta.is_thinking = words.is_empty() && !delta.content.is_empty();
                delta.content = words;
                if delta.is_last {
                    delta.content.push_str(&self.thoughts.rest());
                }
                self.is_finished |= delta.is_last;
                if delta != ChatDelta::default() {
                    return Ok(Some(delta));
                }
            }
            let Some(bytes) = next(&mut self.body).await? else {
                return Ok(None);
            };
            self.received += bytes.len();
            let found = self.lines.push(&bytes);
            let found = found.filter(|_| self.received <= CHAT_MOST);
            self.waiting
                .extend(found.ok_or("it sends a stream without end")?);
        }
    }
}

/// The media type of an answer; empty if it tells none.
fn content_type(headers: &HeaderMap<HeaderValue>) -> String {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(_)) => return Err("the connection broke in mid-answer".to_owned()),
            // Trailers say nothing.
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

async fn whole(body: &mut Incoming, most: usize) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    while let Some(bytes) = next(body).await? {
        all.extend_from_slice(&bytes);
        if all.len() > most {
            return Err("its answer is too long".to_owned());
        }
    }
    Ok(all)
}

fn retry_after(headers: &HeaderMap<HeaderValue>) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Words for a request that got no answer.
fn broken(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error.is_connect() {
        true => format!("nothing answers there ({cause})"),
        false => format!("the connection broke ({cause})"),
    }
}

/// A form with a file, and its type.
fn multipart(fields: &[(&str, &str)], file: &[u8]) -> (String, Vec<u8>) {
    let mut boundary = "dikala-4c5e2f8a91d7".to_owned();
    while file
        .windows(boundary.len())
        .any(|it| it == boundary.as_bytes())
    {
        boundary.push('x');
    }
    let mut form = Vec::with_capacity(file.len() + 1024);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let part = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        form.extend(part.as_bytes());
    }
    let part = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"caller.wav\"\r\nContent-Type: audio/wav\r\n\r\n"
    );
    form.extend(part.as_bytes());
    form.extend(file);
    form.extend(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), form)
}
