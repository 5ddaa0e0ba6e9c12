//! A SIP phone over UDP that calls, listens, and hangs up.

use std::{net::SocketAddr, time::Duration};

use dikala_testkit::{eventually, phone};

use super::audio::PhoneAudio;

pub struct TestPhone {
    dialog: phone::SignallingPhone,
    pub audio: PhoneAudio,
}

impl TestPhone {
    /// Calls a number and acknowledges the answer.
    pub async fn call(edge: SocketAddr, did: &str) -> Self {
        let mut phone = Self::new(edge, did).await;
        phone.answered().await;
        phone
    }

    /// Calls and acknowledges the answer.
    pub async fn answered(&mut self) {
        self.dialog.invite(&self.offer()).await;
        self.audio.start(self.dialog.media);
    }

    /// Calls and returns the refusal. The next call repeats this one.
    pub async fn refused(&mut self) -> String {
        self.dialog.refused(&self.offer()).await
    }

    fn offer(&self) -> String {
        phone::offer(self.audio.port(), 8, "PCMA/8000")
    }

    pub async fn new(edge: SocketAddr, did: &str) -> Self {
        let id = format!("{:x}", rand::random::<u64>());
        let dialog = phone::SignallingPhone::new(edge, did, "+6281234567890", &id).await;
        Self {
            dialog,
            audio: PhoneAudio::new(),
        }
    }

    /// Sends OPTIONS; returns the answer.
    pub async fn options(edge: SocketAddr) -> String {
        let phone = Self::new(edge, "+620000000").await;
        phone.dialog.ask("OPTIONS", "").await
    }

    /// Calls a number; returns the answer.
    pub async fn try_call(edge: SocketAddr, did: &str) -> (Self, String) {
        let phone = Self::new(edge, did).await;
        let answer = phone.dialog.ask("INVITE", &phone.offer()).await;
        (phone, answer)
    }

    /// Waits until anything but silence is received.
    pub async fn hears(&self) {
        eventually("the greeting to be heard", async || {
            self.audio.is_loud().then_some(())
        })
        .await;
    }

    /// Accepts an outgoing call that arrives at this phone in its role as the trunk. Returns the called person's
    /// audio and the Call-ID.
    pub async fn takes_a_call(&self) -> (PhoneAudio, String) {
        let mut person = PhoneAudio::new();
        let answer = phone::offer(person.port(), 8, "PCMA/8000");
        let (media, id) = self.dialog.takes_a_call(&answer).await;
        person.start(media);
        (person, id)
    }

    pub async fn hang_up(&self) {
        self.dialog.hang_up().await;
    }

    /// Waits for a `BYE` and answers it; returns the request.
    pub async fn hung_up(&self) -> String {
        self.dialog.hung_up().await
    }

    /// As [`Self::hung_up`], but returns false after `patience`.
    pub async fn hung_up_within(&self, patience: Duration) -> bool {
        self.dialog.hung_up_within(patience).await.is_some()
    }
}
