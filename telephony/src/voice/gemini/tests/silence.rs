//! Network paths that swallow everything without notice to either side.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use dikala_testkit::gemini::FakeGemini as Model;
use tokio::{
    io::{copy, copy_bidirectional, sink},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{MODEL, call_with, settings};
use crate::voice::{
    VoiceEvent,
    common::tests::{Call, shown},
};

/// A proxy between call and model. When it falls silent, it cuts the model's side of the current connections, and keeps and reads
/// the call's side. New connections work unless it is dark.
struct Line {
    address: SocketAddr,
    cuts: watch::Sender<bool>,
}

impl Line {
    async fn to(model: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut call, _)) = listener.accept().await {
                let mut cut = cut.clone();
                let is_dark = *cut.borrow_and_update();
                tokio::spawn(async move {
                    if !is_dark {
                        let mut model = TcpStream::connect(model).await.unwrap();
                        tokio::select! {
                            _ = copy_bidirectional(&mut call, &mut model) => return,
                            _ = cut.changed() => {}
                        }
                    }
                    let _ = copy(&mut call, &mut sink()).await;
                });
            }
        });
        Self { address, cuts }
    }

    fn url(&self) -> String {
        format!("ws://{}/ws/fake.BidiGenerateContent", self.address)
    }
}

/// A call over the line whose model has answered.
async fn in_talk(line: &Line) -> Call {
    let mut call = call_with(settings(line.url(), MODEL));
    call.until("the greeting", |it| *it == VoiceEvent::TurnOver)
        .await;
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    call
}

#[tokio::test]
async fn a_line_that_falls_silent_is_given_up_and_the_session_resumed() {
    let model = Model::start();
    let line = Line::to(model.address).await;
    let mut call = in_talk(&line).await;
    let silent = Instant::now();
    line.cuts.send_replace(false);
    let since = call
        .until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    let took = silent.elapsed();
    assert!(since.contains(&VoiceEvent::Away), "{:?}", shown(&since));
    // A ping may have been under way.
    assert!(took >= Duration::from_millis(1_500), "{took:?}");
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    assert!(model.connections()[1].handle().is_some());
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_line_that_stays_silent_is_the_end_eight_seconds_after_it_is_noticed() {
    let model = Model::start();
    let line = Line::to(model.address).await;
    let mut call = in_talk(&line).await;
    line.cuts.send_replace(true);
    call.until("the fault", |it| *it == VoiceEvent::Away).await;
    let noticed = Instant::now();
    call.until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    let took = noticed.elapsed();
    // The test may have been told of the fault a little late.
    assert!(took >= Duration::from_secs(7), "{took:?}");
}

#[tokio::test]
async fn a_model_that_has_nothing_to_say_answers_pings_and_stays() {
    let model = Model::start();
    let line = Line::to(model.address).await;
    let mut call = in_talk(&line).await;
    let quiet = call.until("a fault", |it| *it == VoiceEvent::Away);
    let quiet = tokio::time::timeout(Duration::from_secs(5), quiet).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(model.connections().len(), 1);
}
