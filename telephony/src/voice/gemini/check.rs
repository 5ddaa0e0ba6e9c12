//! Tests for `dikala check` whether the model can be reached and accepts a setup.

use std::time::Duration;

use dikala_protocol::CallAgent;
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::{
    endpoint,
    setup::{SessionSettings, SessionStart},
    wire::server,
};
use crate::{
    settings,
    trust::Trust,
    voice::common::{broken, closed, connect},
};

/// Time limit of the test.
const PATIENCE: Duration = Duration::from_secs(8);

/// Opens a session and closes it again; nothing is said and nothing is billed. What a call would leave out is left out here, too.
/// Both results are messages for people.
pub async fn check(settings: &settings::GeminiSettings, trust: &Trust) -> Result<String, String> {
    if settings.lacks_key() {
        return Err("there is no key; set telephony.gemini.api_key or GEMINI_API_KEY".to_owned());
    }
    let began = Instant::now();
    let answered = timeout(PATIENCE, set_up(settings, trust));
    match answered.await {
        Ok(Ok(())) => Ok(format!(
            "{} takes a session ({} ms)",
            settings.model,
            began.elapsed().as_millis()
        )),
        Ok(Err(words)) => Err(words),
        Err(_) => Err(format!(
            "{} does not answer within {} s",
            settings.model,
            PATIENCE.as_secs()
        )),
    }
}

async fn set_up(settings: &settings::GeminiSettings, trust: &Trust) -> Result<(), String> {
    let agent = CallAgent {
        id: "check".to_owned(),
        name: "check".to_owned(),
        system_prompt: "You answer a telephone.".to_owned(),
        language: "id".to_owned(),
        tools: vec!["end_call".to_owned()],
        ..CallAgent::default()
    };
    let mut session = SessionSettings::new(agent, &settings.model);
    match accepted(&session, settings, trust).await {
        Err(words) if session.leave_out(&words) => accepted(&session, settings, trust).await,
        done => done,
    }
}

async fn accepted(
    session: &SessionSettings,
    settings: &settings::GeminiSettings,
    trust: &Trust,
) -> Result<(), String> {
    let setup = session.setup(SessionStart::Fresh(""));
    let setup = serde_json::to_string(&setup).map_err(|error| error.to_string())?;
    let mut socket = connect(&endpoint(settings), trust, None)
        .await
        .map_err(|why| why.words)?;
    let sent = socket.send(Message::text(setup)).await;
    sent.map_err(|error| broken(&error))?;
    while let Some(message) = socket.next().await {
        let bytes = match message.map_err(|error| broken(&error))? {
            Message::Text(text) => text.as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Close(frame) => return Err(closed(frame, &settings.api_key).words),
            _ => continue,
        };
        let message = serde_json::from_slice::<server::ServerMessage>(&bytes);
        if message.is_ok_and(|message| message.setup_complete) {
            // The setup was accepted, so a lost close does not matter.
            let _ = socket.close(None).await;
            return Ok(());
        }
    }
    Err("the connection ended without a word".to_owned())
}
