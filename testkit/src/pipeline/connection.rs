//! One connection to the simulated server.

use std::time::Instant;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    Endpoint, KEY, ReceivedCall, ServerReaction, Shared,
    answers::{self, Answer},
    rules::{self, Admitted},
};
use crate::sound;

struct HttpRequest {
    path: String,
    authorization: Option<String>,
    kind: String,
    body: Vec<u8>,
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerEnd {
    Whole,
    Silent,
    Cut,
    /// The last piece is repeated.
    Endless,
}

pub(super) async fn serve(mut stream: TcpStream, shared: Shared) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read(&mut stream).await {
        let done = answer(&mut stream, &request, &shared).await;
        if done.is_none() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<HttpRequest> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    };
    let length: usize = field("content-length")?.parse().ok()?;
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(HttpRequest {
        path: text.split(' ').nth(1)?.to_owned(),
        authorization: field("authorization"),
        kind: field("content-type").unwrap_or_default(),
        body,
    })
}

/// Answers a request. `None`: the connection is over.
async fn answer(stream: &mut TcpStream, request: &HttpRequest, shared: &Shared) -> Option<()> {
    let Some(endpoint) = rules::endpoint(&request.path) else {
        return refuse(stream, 404, "", None).await;
    };
    let wanted = (!shared.lock().unwrap().takes_no_key).then(|| format!("Bearer {KEY}"));
    if request.authorization != wanted {
        return refuse(stream, 401, "invalid_api_key", None).await;
    }
    let admitted = match rules::admit(endpoint, &request.kind, &request.body) {
        Ok(admitted) => admitted,
        Err(rule) => {
            let rule = format!("{endpoint:?}: {rule}");
            shared.lock().unwrap().broken.push(rule);
            return refuse(stream, 400, "invalid_request", None).await;
        }
    };
    let voice_ms = voice_ms(&admitted.samples);
    let refuses_usage = shared.lock().unwrap().refuses_usage;
    if refuses_usage && admitted.body.get("stream_options").is_some() {
        return refuse(stream, 400, "unknown_parameter", None).await;
    }
    let (reaction, number) = {
        let mut state = shared.lock().unwrap();
        state.calls.push(ReceivedCall {
            endpoint,
            body: admitted.body.clone(),
            audio_ms: admitted.samples.len() as u64 / 16,
            voice_ms,
            at: Instant::now(),
            cancelled: None,
        });
        let queue = state.reactions.entry(endpoint).or_default();
        (queue.pop_front(), state.calls.len() - 1)
    };
    if let Some(ServerReaction::Status(status, code, retry_after)) = reaction {
        return refuse(stream, status, code, retry_after).await;
    }
    let (answer, end) = match (reaction, sensed(endpoint, &admitted, shared).await) {
        (None, Some(answer)) => (answer, AnswerEnd::Whole),
        (reaction, _) => planned(endpoint, &admitted, voice_ms, reaction),
    };
    let done = send(stream, &answer, end).await;
    if done.is_none() && end != AnswerEnd::Cut {
        shared.lock().unwrap().calls[number].cancelled = Some(Instant::now());
    }
    done
}

/// The answer of real ears or a real mouth, if there are any.
async fn sensed(endpoint: Endpoint, request: &Admitted, shared: &Shared) -> Option<Answer> {
    let (ears, mouth) = shared.lock().unwrap().senses?;
    let file = request.file.clone();
    let input = request.body["input"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let working = tokio::task::spawn_blocking(move || match endpoint {
        Endpoint::Stt => Some(answers::transcript(&ears(&file))),
        Endpoint::Llm => None,
        Endpoint::Tts => Some(answers::samples(&mouth(&input))),
    });
    working.await.unwrap()
}

fn planned(
    endpoint: Endpoint,
    request: &Admitted,
    voice_ms: u64,
    reaction: Option<ServerReaction>,
) -> (Answer, AnswerEnd) {
    let usual = || answers::usual(endpoint, request, voice_ms);
    let whole = |answer| (answer, AnswerEnd::Whole);
    let part = |end| {
        let mut answer = usual();
        answer.pieces.truncate(4);
        (answer, end)
    };
    match reaction {
        None | Some(ServerReaction::Status(..)) => whole(usual()),
        Some(ServerReaction::Text(text)) if endpoint == Endpoint::Stt => {
            whole(answers::transcript(text))
        }
        Some(ServerReaction::Text(text)) => whole(answers::chat(request, text, &[])),
        Some(ServerReaction::Call(text, calls)) => whole(answers::chat(request, text, &calls)),
        Some(ServerReaction::Events(events)) => whole(answers::stream(&events)),
        Some(ServerReaction::Empty) => whole(Answer::default()),
        Some(ServerReaction::Mp3) => whole(Answer {
            kind: "audio/mpeg",
            pieces: vec![b"ID3\x04".to_vec()],
        }),
        Some(ServerReaction::Wav) => whole(answers::wav(&usual())),
        Some(ServerReaction::Silence) => (Answer::default(), AnswerEnd::Silent),
        Some(ServerReaction::Stall) => part(AnswerEnd::Silent),
        Some(ServerReaction::Cut) => part(AnswerEnd::Cut),
        Some(ServerReaction::Endless) => part(AnswerEnd::Endless),
    }
}

/// Sends an answer in chunks. `None`: the connection is over.
async fn send(stream: &mut TcpStream, answer: &Answer, end: AnswerEnd) -> Option<()> {
    if answer.pieces.is_empty() && end == AnswerEnd::Silent {
        return closed(stream).await;
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        answer.kind
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    for piece in &answer.pieces {
        chunk(stream, piece).await?;
    }
    match end {
        AnswerEnd::Whole => stream.write_all(b"0\r\n\r\n").await.ok(),
        AnswerEnd::Cut => None,
        AnswerEnd::Silent => closed(stream).await,
        AnswerEnd::Endless => loop {
            chunk(stream, answer.pieces.last()?).await?;
        },
    }
}

/// Sends a chunk, unless the client has gone.
async fn chunk(stream: &mut TcpStream, piece: &[u8]) -> Option<()> {
    let mut bytes = format!("{:x}\r\n", piece.len()).into_bytes();
    bytes.extend(piece);
    bytes.extend(b"\r\n");
    let (mut reader, mut writer) = stream.split();
    let mut nothing = [0];
    tokio::select! {
        written = writer.write_all(&bytes) => written.ok(),
        _ = reader.read(&mut nothing) => None,
    }
}

/// Waits for the client's end.
async fn closed(stream: &mut TcpStream) -> Option<()> {
    let mut nothing = [0];
    let _ = stream.read(&mut nothing).await;
    None
}

async fn refuse(
    stream: &mut TcpStream,
    status: u16,
    code: &str,
    retry_after: Option<u32>,
) -> Option<()> {
    let body = json!({"error": {"message": "It is refused.", "type": "refused", "code": code}})
        .to_string();
    let mut head = format!("HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n");
    if let Some(seconds) = retry_after {
        head.push_str(&format!("retry-after: {seconds}\r\n"));
    }
    if (300..400).contains(&status) {
        head.push_str("location: http://127.0.0.1:9/\r\n");
    }
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.ok()
}

fn voice_ms(samples: &[i16]) -> u64 {
    let pieces = samples.chunks(320);
    let loud = pieces.filter(|piece| sound::is_voice(piece));
    loud.count() as u64 * 20
}
