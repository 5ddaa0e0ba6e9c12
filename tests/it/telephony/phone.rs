//! A SIP phone over UDP that calls, hears, and hangs up.

use std::{net::SocketAddr, time::Duration};

use dikala_testkit::{eventually, phone};

use super::audio::Audio;

pub struct Phone {
    dialog: phone::Phone,
    pub audio: Audio,
}

impl Phone {
    /// Calls a number, and acknowledges the answer.
    pub async fn call(edge: SocketAddr, did: &str) -> Self {
        let mut audio = Audio::new();
        let offer = phone::offer(audio.port(), 8, "PCMA/8000");
        let id = format!("{:x}", rand::random::<u64>());
        let dialog = phone::Phone::call(edge, did, "+6281234567890", &id, &offer).await;
        audio.start(dialog.media);
        Self { dialog, audio }
    }

    /// Waits until something is heard that is not silence.
    pub async fn hears(&self) {
        eventually("the greeting to be heard", async || {
            self.audio.is_loud().then_some(())
        })
        .await;
    }

    pub async fn hang_up(&self) {
        self.dialog.hang_up().await;
    }

    /// Waits to be hung up, and consents: the request.
    pub async fn hung_up(&self) -> String {
        self.dialog.hung_up().await
    }

    /// The same, if it comes so soon.
    pub async fn hung_up_within(&self, patience: Duration) -> bool {
        self.dialog.hung_up_within(patience).await.is_some()
    }
}
