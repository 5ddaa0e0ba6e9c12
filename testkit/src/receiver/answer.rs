//! The answers of a customer's server, valid and faulty.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Semaphore,
    time::sleep,
};

use super::bomb::gzip_bomb;

/// An answer of a path.
#[derive(Clone, Debug)]
pub enum ServerAnswer {
    Status(u16),
    Json(Value),
    /// A status with one header and any body.
    Full(u16, &'static str, String, Vec<u8>),
    /// These bytes; the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes; the connection is closed.
    Raw(&'static [u8]),
    /// An answer after a delay.
    After(Duration, Box<ServerAnswer>),
    /// An answer once the semaphore has a permit.
    When(Arc<Semaphore>, Box<ServerAnswer>),
    /// Reads the request and never answers.
    Hang,
    /// Answers 200 after this delay.
    Slow(Duration),
    /// An endless head, one byte every 10 ms.
    DripHead,
    /// A body, one byte every 10 ms.
    DripBody,
    /// An endless body, as fast as the client reads.
    EndlessBody,
    /// A body that announces 10 GB, as fast as the client reads.
    TenGigabytes,
    /// A gzip body that decompresses to 1.6 GB.
    GzipBomb,
    /// Closes with RST instead of an answer.
    Reset,
}

/// Pause between two bytes of a slow answer.
const DRIP: Duration = Duration::from_millis(10);

impl ServerAnswer {
    /// A status, header lines (each with its line end) and a body.
    pub fn with(status: u16, headers: &str, body: &[u8]) -> Self {
        Self::Bytes(whole(status, headers, body))
    }

    pub fn after(self, wait: Duration) -> Self {
        Self::After(wait, Box::new(self))
    }

    /// This answer, once the semaphore has a permit.
    pub fn when(self, permits: &Arc<Semaphore>) -> Self {
        Self::When(Arc::clone(permits), Box::new(self))
    }
}

/// Sends the answer. Returns true if the connection can be reused.
pub(super) async fn give(
    stream: &mut BufReader<TcpStream>,
    answer: ServerAnswer,
) -> std::io::Result<bool> {
    let bytes = match answer {
        ServerAnswer::Status(status) => whole(status, "", b""),
        ServerAnswer::Json(body) => json_answer(&body),
        ServerAnswer::Full(status, name, value, body) => {
            whole(status, &format!("{name}: {value}\r\n"), &body)
        }
        ServerAnswer::Slow(time) => {
            sleep(time).await;
            json_answer(&json!({}))
        }
        ServerAnswer::Bytes(bytes) => bytes,
        ServerAnswer::After(wait, answer) => {
            sleep(wait).await;
            return Box::pin(give(stream, *answer)).await;
        }
        ServerAnswer::When(permits, answer) => {
            permits.acquire().await.expect("nobody closes it").forget();
            return Box::pin(give(stream, *answer)).await;
        }
        ServerAnswer::GzipBomb => whole(200, "content-encoding: gzip\r\n", gzip_bomb()),
        ServerAnswer::Raw(bytes) => {
            stream.write_all(bytes).await?;
            return Ok(false);
        }
        ServerAnswer::Reset => {
            stream.get_ref().set_zero_linger()?;
            return Ok(false);
        }
        ServerAnswer::Hang => {
            // Waits until the peer closes.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            return Ok(false);
        }
        ServerAnswer::DripHead => {
            return drip(stream, b"HTTP/1.1 200 OK\r\nx-drip: ").await;
        }
        ServerAnswer::DripBody => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
            stream.write_all(head).await?;
            return drip(stream, b"").await;
        }
        ServerAnswer::EndlessBody => {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await?;
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        ServerAnswer::TenGigabytes => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n";
            stream.write_all(head).await?;
            for _ in 0..10 << 14 {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
            return Ok(true);
        }
    };
    stream.write_all(&bytes).await?;
    Ok(true)
}

/// Sends one byte at a time, forever.
async fn drip(stream: &mut BufReader<TcpStream>, first: &[u8]) -> std::io::Result<bool> {
    for byte in first.iter().chain(std::iter::repeat(&b'x')) {
        stream.write_all(&[*byte]).await?;
        sleep(DRIP).await;
    }
    Ok(false)
}

fn json_answer(body: &Value) -> Vec<u8> {
    let header = "content-type: application/json\r\n";
    whole(200, header, body.to_string().as_bytes())
}

fn whole(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Test\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}
