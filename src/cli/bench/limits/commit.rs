//! Limit of an acknowledgement: a WebSocket server that commits one small row per message and replies.

use std::net::SocketAddr;

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::connection;
use crate::cli::bench::{
    Result,
    bridge::frames::{TEXT, frame_at, quoted, write_plain},
    failed,
    ground::thread::listen,
};

const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n";

/// Starts the server on the database at this URL. It stops with the process.
pub async fn serve(url: String) -> Result<SocketAddr> {
    let store = connection(&url).await.map_err(failed)?;
    let made = store.execute_unprepared("CREATE TABLE bare_commits (id BIGINT NOT NULL)");
    made.await.map_err(failed)?;
    store.close().await.map_err(failed)?;
    listen(move |listener| accept(listener, url)).await
}

async fn accept(listener: TcpListener, url: String) {
    let Ok(store) = connection(&url).await else {
        return;
    };
    while let Ok((socket, _)) = listener.accept().await {
        // If the connection fails, the client reports it.
        let _ = talk(socket, &store).await;
    }
}

async fn talk(mut socket: TcpStream, store: &DatabaseConnection) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut input = Vec::with_capacity(4_096);
    while !input.ends_with(b"\r\n\r\n") {
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
    socket.write_all(SWITCH).await?;
    input.clear();
    let mut output = Vec::with_capacity(4_096);
    loop {
        while let Some(frame) = frame_at(&input, 0) {
            let id = quoted(&input[frame.payload.clone()], b"\"id\":\"").unwrap_or_default();
            commit(store).await.map_err(std::io::Error::other)?;
            let id = String::from_utf8_lossy(id);
            let reply = format!(
                r#"{{"replyTo":"{id}","ok":true,"callId":"call_01k9zv3m8rj2q4w6y8a0c2e4g6","action":"answer"}}"#
            );
            output.clear();
            write_plain(&mut output, TEXT, reply.as_bytes());
            socket.write_all(&output).await?;
            input.drain(..frame.payload.end);
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// A single statement is its own transaction.
async fn commit(store: &DatabaseConnection) -> std::result::Result<(), DbErr> {
    let backend = store.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => "INSERT INTO bare_commits (id) VALUES ($1)",
        _ => "INSERT INTO bare_commits (id) VALUES (?)",
    };
    let statement = Statement::from_sql_and_values(backend, sql, [1_i64.into()]);
    store.execute_raw(statement).await.map(drop)
}
