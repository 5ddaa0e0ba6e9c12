//! Server-sent events with newly rendered parts of a page, which the script puts in place of the old ones.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{CONTENT_ENCODING, HeaderValue, VARY},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::{packed, seats::StreamSeat};
use crate::http::{error::ApiError, middleware::while_connected};

/// Interval at which a stream's session is checked.
const SESSION_EVERY: Duration = Duration::from_millis(500);
/// Time after which a page that does not read is disconnected.
const UNREAD: Duration = Duration::from_secs(30);
/// The browser's delay before it reconnects, in milliseconds.
pub const OPENING: &str = "retry: 2000\n";
/// Sent at least every ten seconds. An event, because scripts do not see comments: a page that hears nothing for 25 s takes its
/// connection for lost.
pub const STILL_HERE: &str = "event: beat\ndata:\n\n";
/// Nothing will change any more: the page does not reconnect.
pub const OVER: &str = "event: over\ndata:\n\n";
/// The page has to be loaded again: it missed too much, or its session has ended.
pub const RELOAD: &str = "event: stale\ndata:\n\n";
/// Another page of the session took the seat: the page stays paused until its reader resumes it.
const SEAT_TAKEN: &str = "event: closed\ndata:\n\n";

/// The stream has ended: the page is closed, or reads too slowly.
#[derive(Debug)]
pub struct StreamEnded;

/// The sending end of a page's stream.
#[derive(Clone, Debug)]
pub struct StreamSender(mpsc::Sender<Bytes>);

impl StreamSender {
    pub async fn send(&self, chunk: String) -> Result<(), StreamEnded> {
        match tokio::time::timeout(UNREAD, self.0.send(chunk.into())).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(StreamEnded),
        }
    }

    /// Returns once the page is closed.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Opens a stream and the answer that carries it, compressed if the client accepts that. It ends with the
/// connection.
pub fn open(request: &HttpRequest) -> Result<(StreamSender, HttpResponse), ApiError> {
    while_connected(request)?;
    let (to, mut chunks) = mpsc::channel(1);
    let chunks = stream::poll_fn(move |context| chunks.poll_recv(context));
    let mut response = HttpResponse::Ok();
    response
        .content_type("text/event-stream")
        .insert_header((VARY, HeaderValue::from_static("Accept-Encoding")))
        // nginx and similar proxies would buffer the answer.
        .insert_header(("X-Accel-Buffering", HeaderValue::from_static("no")));
    let response = match packed::is_taken(request.headers()) {
        true => response
            .insert_header((CONTENT_ENCODING, HeaderValue::from_static("gzip")))
            .streaming(packed::stream(chunks).map(Ok::<Bytes, ApiError>)),
        false => response.streaming(chunks.map(Ok::<Bytes, ApiError>)),
    };
    Ok((StreamSender(to), response))
}

/// Runs `work` until it ends, the page is closed, its session has ended, or another page takes its seat.
pub async fn run<O>(
    to: &StreamSender,
    mut seat: StreamSeat<O>,
    work: impl Future,
    is_signed_in: impl AsyncFn() -> bool,
) {
    let signed_out = async {
        tokio::time::sleep(SESSION_EVERY).await;
        while is_signed_in().await {
            tokio::time::sleep(SESSION_EVERY).await;
        }
    };
    tokio::select! {
        _ = work => {}
        () = signed_out => {
            // If this cannot be sent, the page is gone already.
            let _ = to.send(RELOAD.to_owned()).await;
        }
        () = to.closed() => {}
        () = seat.lost() => {
            // If this cannot be sent, the page is gone already.
            let _ = to.send(SEAT_TAKEN.to_owned()).await;
        }
    }
}

/// One event. Each line of the element becomes a `data` field. Carriage returns are removed, because they would end
/// a field.
pub fn frame(position: i64, kind: &str, html: &str) -> String {
    let data = html.replace('\r', "").replace('\n', "\ndata: ");
    format!("id: {position}\nevent: {kind}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_said_ends_no_message() {
        let sent = frame(7, "part", "<p>one\r\n\r\ndata: two\revent: x</p>");
        assert_eq!(
            sent,
            "id: 7\nevent: part\ndata: <p>one\ndata: \ndata: data: twoevent: x</p>\n\n"
        );
    }
}
