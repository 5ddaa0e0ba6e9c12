//! The answers of the simulated server.

use serde_json::{Value, json};

use super::{Endpoint, rules::Admitted};
use crate::sound;

/// Sound of one character of speech.
const PER_CHARACTER_MS: u64 = 20;

/// The pieces of an answer, each sent in a chunk of its own.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) kind: &'static str,
    pub(super) pieces: Vec<Vec<u8>>,
}

/// The text of a transcription.
pub(super) fn transcript(text: &str) -> Answer {
    Answer {
        kind: "application/json",
        pieces: vec![json!({"text": text}).to_string().into_bytes()],
    }
}

/// The usual answer of an endpoint.
pub(super) fn usual(endpoint: Endpoint, request: &Admitted, voice_ms: u64) -> Answer {
    match endpoint {
        Endpoint::Stt if voice_ms == 0 => transcript(""),
        Endpoint::Stt => transcript(&format!("A voice of {voice_ms} ms.")),
        Endpoint::Llm => {
            let messages = request.body["messages"].as_array();
            let last = messages.and_then(|all| all.last());
            let last = last
                .and_then(|it| it["content"].as_str())
                .unwrap_or_default();
            let last = last.trim_matches(['[', ']']).trim_end_matches('.');
            chat(request, &format!("I heard: {last}."), &[])
        }
        Endpoint::Tts => speech(request),
    }
}

/// A tone as long as the text.
pub(super) fn speech(request: &Admitted) -> Answer {
    let input = request.body["input"].as_str().unwrap_or_default();
    let milliseconds = input.chars().count() as u64 * PER_CHARACTER_MS;
    samples(&sound::tone_bytes(milliseconds))
}

/// Samples in pieces of an odd length: a sample may be torn.
pub(super) fn samples(bytes: &[u8]) -> Answer {
    Answer {
        kind: "audio/pcm",
        pieces: bytes.chunks(4_801).map(<[u8]>::to_vec).collect(),
    }
}

/// The same speech as a WAV file of half the rate, whose length is not told.
pub(super) fn wav(speech: &Answer) -> Answer {
    let mut file = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    for number in [12_000_u32, 24_000] {
        file.extend(number.to_le_bytes());
    }
    file.extend(b"\x02\0\x10\0data\xff\xff\xff\xff");
    let bytes = speech.pieces.concat();
    let every_second = bytes.chunks(4).filter_map(|two| two.get(..2));
    file.extend(every_second.flatten());
    Answer {
        kind: "audio/wav",
        ..samples(&file)
    }
}

/// A text word by word, and calls: first their names, then their arguments in pieces.
pub(super) fn chat(request: &Admitted, text: &str, calls: &[(&str, Value)]) -> Answer {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(
        text.split_inclusive(' ')
            .map(|word| json!({"content": word})),
    );
    for (index, (name, _)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let call = json!({"index": index, "id": format!("model-{index}"), "type": "function", "function": function});
        deltas.push(json!({"tool_calls": [call]}));
    }
    for (index, (_, arguments)) in calls.iter().enumerate() {
        let text: Vec<char> = arguments.to_string().chars().collect();
        for piece in text.chunks(4) {
            let function = json!({"arguments": String::from_iter(piece)});
            deltas.push(json!({"tool_calls": [{"index": index, "function": function}]}));
        }
    }
    let mut events: Vec<Value> = deltas
        .iter()
        .map(|delta| chunk(delta, Value::Null))
        .collect();
    let reason = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    events.push(chunk(&json!({}), json!(reason)));
    if request.body["stream_options"]["include_usage"] == true {
        let details = json!({"cached_tokens": 64});
        let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": details});
        events.push(json!({"choices": [], "usage": usage}));
    }
    stream(&events)
}

pub(super) fn stream(events: &[Value]) -> Answer {
    let event = |event: &Value| format!("data: {event}\n\n").into_bytes();
    let mut pieces: Vec<Vec<u8>> = vec![b": a comment\n\n".to_vec()];
    pieces.extend(events.iter().map(event));
    pieces.push(b"data: [DONE]\n\n".to_vec());
    Answer {
        kind: "text/event-stream; charset=utf-8",
        pieces,
    }
}

fn chunk(delta: &Value, reason: Value) -> Value {
    json!({"id": "chat-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}
