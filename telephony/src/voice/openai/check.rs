//! Tests for `dikala check` whether the model can be reached and accepts a session.

use std::time::Duration;

use dikala_protocol::{CallAgent, client::socket::ClientSocket};
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::{
    endpoint,
    session_update::SessionTerms,
    wire::server::{self, RealtimeEvent},
};
use crate::{
    settings::OpenAiSettings,
    trust::Trust,
    voice::common::{broken, closed, connect, is_fatal},
};

/// Time limit of the test.
const PATIENCE: Duration = Duration::from_secs(8);

/// Opens a session and closes it again; nothing is said and nothing is billed. Both results are messages for people.
pub async fn check(settings: &OpenAiSettings, trust: &Trust) -> Result<String, String> {
    if settings.lacks_key() {
        return Err("there is no key; set telephony.openai.api_key or OPENAI_API_KEY".to_owned());
    }
    let model = match settings.model.as_str() {
        "" => "the server's only model",
        model => model,
    };
    let began = Instant::now();
    match timeout(PATIENCE, set_up(settings, trust)).await {
        Ok(Ok(())) => Ok(format!(
            "{model} takes a session ({} ms)",
            began.elapsed().as_millis()
        )),
        Ok(Err(words)) => Err(words),
        Err(_) => Err(format!(
            "{model} does not answer within {} s",
            PATIENCE.as_secs()
        )),
    }
}

async fn set_up(settings: &OpenAiSettings, trust: &Trust) -> Result<(), String> {
    let agent = CallAgent {
        id: "check".to_owned(),
        name: "check".to_owned(),
        system_prompt: "You answer a telephone.".to_owned(),
        language: "id".to_owned(),
        tools: vec!["end_call".to_owned()],
        ..CallAgent::default()
    };
    let mut terms = SessionTerms {
        agent,
        circumstances: String::new(),
        transcription_model: settings.transcription_model.clone(),
        turn_detection: settings.turn_detection,
        interruptible: true,
        is_plain: false,
    };
    let mut socket = connect(&endpoint(settings), trust, None)
        .await
        .map_err(|why| why.words)?;
    let mut is_created = false;
    // Like a call, it sends the plain terms after a refusal.
    loop {
        match next(&mut socket, &settings.api_key).await? {
            RealtimeEvent::SessionCreated => {
                is_created = true;
                update(&mut socket, &terms).await?;
            }
            RealtimeEvent::SessionUpdated => {
                // The terms were accepted, so a lost close does not matter.
                let _ = socket.close(None).await;
                return Ok(());
            }
            RealtimeEvent::Error(event) => {
                let code = event.error.shown();
                if !is_created || terms.is_plain || is_fatal(&code) {
                    return Err(format!("it answers with the error {code}"));
                }
                terms.is_plain = true;
                update(&mut socket, &terms).await?;
            }
            _ => {}
        }
    }
}

async fn update(socket: &mut ClientSocket, terms: &SessionTerms) -> Result<(), String> {
    let text = serde_json::to_string(&terms.update()).map_err(|error| error.to_string())?;
    let sent = socket.send(Message::text(text)).await;
    sent.map_err(|error| broken(&error))
}

/// The next event that can be read.
async fn next(socket: &mut ClientSocket, key: &str) -> Result<RealtimeEvent, String> {
    while let Some(message) = socket.next().await {
        let bytes = match message.map_err(|error| broken(&error))? {
            Message::Text(text) => text.as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Close(frame) => return Err(closed(frame, key).words),
            _ => continue,
        };
        if let Some(event) = server::read(&bytes) {
            return Ok(event);
        }
    }
    Err("the connection ended without a word".to_owned())
}
