//! The documented rules of the three endpoints, for requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Endpoint;

/// Fields that a request may have.
const CHAT: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
];
const SPEECH: &[&str] = &["model", "input", "voice", "response_format", "speed"];
const FORM: &[&str] = &["file", "model", "language", "prompt", "response_format"];
const INPUT_MOST: usize = 4_096;

/// A request that keeps to the rules.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    pub(super) body: Value,
    /// At 16 kHz.
    pub(super) samples: Vec<i16>,
    /// The whole file of the samples.
    pub(super) file: Vec<u8>,
}

pub(super) fn endpoint(path: &str) -> Option<Endpoint> {
    match path {
        "/v1/audio/transcriptions" => Some(Endpoint::Stt),
        "/v1/chat/completions" => Some(Endpoint::Llm),
        "/v1/audio/speech" => Some(Endpoint::Tts),
        _ => None,
    }
}

/// Checks a request. Errors: the broken rule.
pub(super) fn admit(endpoint: Endpoint, kind: &str, body: &[u8]) -> Result<Admitted, String> {
    if endpoint == Endpoint::Stt {
        return transcription(kind, body);
    }
    if kind != "application/json" {
        return Err(format!("the type is {kind}"));
    }
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let known = match endpoint {
        Endpoint::Llm => CHAT,
        _ => SPEECH,
    };
    let fields = body.as_object().ok_or("the body is no object")?;
    if let Some(unknown) = fields.keys().find(|it| !known.contains(&it.as_str())) {
        return Err(format!("unknown field {unknown}"));
    }
    if !body["model"].is_string() {
        return Err("there is no model".to_owned());
    }
    match endpoint {
        Endpoint::Llm => chat(&body)?,
        _ => speech(&body)?,
    }
    Ok(Admitted {
        body,
        ..Admitted::default()
    })
}

fn speech(body: &Value) -> Result<(), String> {
    let input = body["input"].as_str().ok_or("there is no input")?;
    if !(1..=INPUT_MOST).contains(&input.chars().count()) {
        return Err("the input has 1 to 4096 characters".to_owned());
    }
    if body["response_format"] != "pcm" {
        return Err("the format is not pcm".to_owned());
    }
    let voice = body.get("voice");
    match voice.is_none_or(|voice| voice.as_str().is_some_and(|it| !it.is_empty())) {
        true => Ok(()),
        false => Err("the voice has no name".to_owned()),
    }
}

fn chat(body: &Value) -> Result<(), String> {
    if body["stream"] != true {
        return Err("it is no stream".to_owned());
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        let function = &tool["function"];
        let is_right = tool["type"] == "function"
            && function["name"].as_str().is_some_and(is_name)
            && function["parameters"]["type"] == "object";
        if !is_right {
            return Err(format!("a tool is {tool}"));
        }
    }
    if body.get("tools").is_some_and(|tools| *tools == json!([])) {
        return Err("the list of tools is empty".to_owned());
    }
    messages(body["messages"].as_array().ok_or("there are no messages")?)
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_part)
}

/// Checks the messages for a language model: one instruction, then sides that take turns, and every call answered right after it.
///
/// # Errors
///
/// The broken rule.
pub fn messages(messages: &[Value]) -> Result<(), String> {
    let (first, rest) = messages.split_first().ok_or("there are no messages")?;
    if first["role"] != "system" {
        return Err("the first message is no instruction".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut before = "system";
    for message in rest {
        let role = message["role"].as_str().unwrap_or_default();
        let content = message["content"].as_str().ok_or("a message is no text")?;
        let calls = message["tool_calls"].as_array();
        if role != "tool" && !open.is_empty() {
            return Err(format!("the calls {open:?} are not answered"));
        }
        match (role, before) {
            ("user", "system" | "assistant" | "tool") | ("assistant", "user" | "tool") => {
                if content.trim().is_empty() && calls.is_none() {
                    return Err("a message is empty".to_owned());
                }
            }
            ("tool", "assistant" | "tool") => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let at = open.iter().position(|it| *it == id);
                open.remove(at.ok_or(format!("nothing asked for {id}"))?);
            }
            _ => return Err(format!("{role} follows {before}")),
        }
        for call in calls.into_iter().flatten() {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap_or_default();
            let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object());
            if call["type"] != "function" || !is_object {
                return Err(format!("a call is {call}"));
            }
            open.push(call["id"].as_str().ok_or("a call has no id")?);
        }
        before = role;
    }
    if !open.is_empty() || !matches!(before, "user" | "tool") {
        return Err(format!("{before} is last, and {open:?} are not answered"));
    }
    Ok(())
}

fn transcription(kind: &str, body: &[u8]) -> Result<Admitted, String> {
    let boundary = kind.strip_prefix("multipart/form-data; boundary=");
    let boundary = boundary.ok_or(format!("the type is {kind}"))?;
    let fields = form(boundary, body)?;
    if let Some(unknown) = fields.keys().find(|name| !FORM.contains(&name.as_str())) {
        return Err(format!("unknown field {unknown}"));
    }
    let file = fields.get("file").ok_or("there is no file")?;
    if !fields.contains_key("model") {
        return Err("there is no model".to_owned());
    }
    let texts = fields.iter().filter(|(name, _)| *name != "file");
    let texts = texts.map(|(name, value)| {
        let value = String::from_utf8_lossy(value).into_owned();
        (name.clone(), json!(value))
    });
    Ok(Admitted {
        body: Value::Object(texts.collect()),
        samples: wav(file)?,
        file: file.clone(),
    })
}

fn form(boundary: &str, body: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let split = |text: &[u8], by: &[u8]| text.windows(by.len()).position(|it| it == by);
    let delimiter = format!("--{boundary}");
    let between = format!("\r\n{delimiter}");
    let mut rest = body
        .strip_prefix(delimiter.as_bytes())
        .ok_or("the form does not begin with its boundary")?;
    let mut fields = BTreeMap::new();
    while !rest.starts_with(b"--\r\n") {
        rest = rest.strip_prefix(b"\r\n").ok_or("a boundary has no end")?;
        let length = split(rest, between.as_bytes()).ok_or("the form has no end")?;
        let part = &rest[..length];
        let head = split(part, b"\r\n\r\n").ok_or("a field has no head")?;
        let words = String::from_utf8_lossy(&part[..head]);
        let name = words
            .split("name=\"")
            .nth(1)
            .and_then(|it| it.split('"').next());
        let name = name.ok_or("a field has no name")?.to_owned();
        if name == "file" && !words.contains("filename=\"") {
            return Err("the file has no name".to_owned());
        }
        fields.insert(name, part[head + 4..].to_vec());
        rest = &rest[length + between.len()..];
    }
    Ok(fields)
}

/// The samples of a file of 16-bit mono audio at 16 kHz.
fn wav(file: &[u8]) -> Result<Vec<i16>, String> {
    let number = |at: usize| {
        let bytes = file.get(at..at + 4).and_then(|it| it.try_into().ok());
        bytes.map(u32::from_le_bytes)
    };
    let is_wav = file.starts_with(b"RIFF") && file.get(8..16) == Some(b"WAVEfmt ");
    let format = (number(16), number(20), number(24), number(28), number(32));
    // 16 bytes; PCM, mono; 16 kHz; 32,000 bytes per second; 2 bytes, 16 bits.
    let expected = (
        Some(16),
        Some(0x0001_0001),
        Some(16_000),
        Some(32_000),
        Some(0x0010_0002),
    );
    if !is_wav || format != expected || file.get(36..40) != Some(b"data") {
        return Err(format!("the file is no WAV file of 16 kHz: {format:?}"));
    }
    let data = &file[44..];
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    if number(40) != Some(length) || number(4) != Some(length + 36) || length % 2 == 1 {
        return Err("the lengths of the WAV file are wrong".to_owned());
    }
    // OpenAI refuses less than 0.1 s.
    if length < 3_200 {
        return Err("the audio is shorter than 0.1 s".to_owned());
    }
    let (pairs, _) = data.as_chunks();
    Ok(pairs.iter().map(|two| i16::from_le_bytes(*two)).collect())
}
