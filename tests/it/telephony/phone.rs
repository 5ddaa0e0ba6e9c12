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
        let mut phone = Self::new(edge, did).await;
        phone.answered().await;
        phone
    }

    /// Calls, and acknowledges the answer.
    pub async fn answered(&mut self) {
        self.dialog.invite(&self.offer()).await;
        self.audio.start(self.dialog.media);
    }

    /// Calls and is refused: the refusal. The next call is the same once more.
    pub async fn refused(&mut self) -> String {
        self.dialog.refused(&self.offer()).await
    }

    fn offer(&self) -> String {
        phone::offer(self.audio.port(), 8, "PCMA/8000")
    }

    pub async fn new(edge: SocketAddr, did: &str) -> Self {
        let id = format!("{:x}", rand::random::<u64>());
        let dialog = phone::Phone::new(edge, did, "+6281234567890", &id).await;
        Self {
            dialog,
            audio: Audio::new(),
        }
    }

    /// Asks whether calls are taken: what is answered.
    pub async fn options(edge: SocketAddr) -> String {
        let phone = Self::new(edge, "+620000000").await;
        phone.dialog.ask("OPTIONS", "").await
    }

    /// Calls a number: what is answered.
    pub async fn try_call(edge: SocketAddr, did: &str) -> (Self, String) {
        let phone = Self::new(edge, did).await;
        let answer = phone.dialog.ask("INVITE", &phone.offer()).await;
        (phone, answer)
    }

    /// Waits until something is heard that is not silence.
    pub async fn hears(&self) {
        eventually("the greeting to be heard", async || {
            self.audio.is_loud().then_some(())
        })
        .await;
    }

    /// Takes a call of the other side's to somebody else that comes to this phone, as it is the trunk: the one who answers it, and
    /// the call's id.
    pub async fn takes_a_call(&self) -> (Audio, String) {
        let mut person = Audio::new();
        let answer = phone::offer(person.port(), 8, "PCMA/8000");
        let (media, id) = self.dialog.takes_a_call(&answer).await;
        person.start(media);
        (person, id)
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
