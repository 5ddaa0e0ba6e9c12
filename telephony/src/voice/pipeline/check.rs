//! Tests for `dikala check` whether each of the three endpoints does its work.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    endpoints,
    http::{HttpEndpoint, PipelineHttp},
    wire::{PipelineReply, PipelineRequest},
};
use crate::{settings::PipelineSettings, trust::Trust, voice::common::SessionInput};

/// Time limit of one request. A model of one's own may have to be loaded first.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Makes one small request to each endpoint: a second of silence is written down, one word is answered, and one word is spoken. All
/// results are messages for people.
pub async fn check(settings: &PipelineSettings, trust: &Trust) -> Vec<Result<String, String>> {
    let http = endpoints(settings, trust);
    let stt = PipelineRequest::Transcribe(vec![0; 16_000]);
    let llm = PipelineRequest::Chat {
        messages: question(),
        tools: Vec::new(),
        is_plain: true,
    };
    let tts = PipelineRequest::Speak {
        text: "Ya.".to_owned(),
    };
    let tested = [
        test(&http, &http.stt, stt, "writes down speech").await,
        test(&http, &http.llm, llm, "answers").await,
        test(&http, &http.tts, tts, "speaks").await,
    ];
    tested.into()
}

/// Messages that want one word.
pub(super) fn question() -> Vec<Value> {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    vec![
        message("system", "Answer with one word."),
        message("user", "Say yes."),
    ]
}

async fn test(
    http: &PipelineHttp,
    endpoint: &HttpEndpoint,
    request: PipelineRequest,
    does: &str,
) -> Result<String, String> {
    let setting = endpoint.setting;
    if settings_lack_key(endpoint) {
        return Err(format!("{setting}: there is no key; set {setting}.api_key"));
    }
    // There is room for one, so the end waits until what came before it was read.
    let (events, mut replies) = mpsc::channel(1);
    let began = Instant::now();
    let exchange = http.exchange(request, 1, &events);
    let first = async {
        loop {
            match replies.recv().await {
                Some(SessionInput::Message { message, .. }) if brings(&message) => return,
                Some(_) => {}
                None => return std::future::pending().await,
            }
        }
    };
    let result = timeout(PATIENCE, async {
        tokio::select! {
            biased;
            () = first => Ok(()),
            done = exchange => match done {
                Ok(()) => Err("it answers with nothing".to_owned()),
                Err(why) => Err(why.words),
            },
        }
    });
    let took = || began.elapsed().as_millis();
    match result.await {
        Ok(Ok(())) => Ok(format!("{setting} {does} ({} ms)", took())),
        Ok(Err(words)) => Err(format!("{setting}: {words}{}", advice(&words, setting))),
        Err(_) => Err(format!(
            "{setting}: nothing came within {} s",
            PATIENCE.as_secs()
        )),
    }
}

/// The reply shows that the endpoint does its work. Silence has no words.
fn brings(reply: &PipelineReply) -> bool {
    match reply {
        PipelineReply::Transcript(_) => true,
        PipelineReply::Chat(delta) => !delta.content.is_empty() || delta.is_last,
        PipelineReply::Audio(samples) => !samples.is_empty(),
        PipelineReply::Done => false,
    }
}

fn settings_lack_key(endpoint: &HttpEndpoint) -> bool {
    endpoint.key.is_empty() && crate::settings::wants_openai_key(&endpoint.url)
}

/// Advice about a fault.
pub(super) fn advice(words: &str, setting: &str) -> String {
    let has = |text: &str| words.contains(text);
    match () {
        () if has("401") || has("403") => format!("; look at {setting}.api_key"),
        () if has("404") || has("model_not_found") => {
            format!("; look at {setting}.url and {setting}.model")
        }
        () if has("redirect") || has("nothing answers") => format!("; look at {setting}.url"),
        () => String::new(),
    }
}
