//! Limit of an acknowledgement: a WebSocket server that commits one small row per message and replies.

use std::net::SocketAddr;

use dikala_protocol::{
    SUBPROTOCOL,
    reply::{CallDecision, CalleeNames, Reply},
};
use futures_util::{SinkExt, StreamExt};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message as Frame,
        handshake::server::{Callback, ErrorResponse, Request, Response},
        http::{HeaderValue, header},
    },
};

use super::connection;
use crate::cli::bench::{Result, bridge::reply::quoted, failed, ground::thread::listen};

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

struct AcceptSubprotocol;

impl Callback for AcceptSubprotocol {
    fn on_request(
        self,
        _: &Request,
        mut response: Response,
    ) -> std::result::Result<Response, ErrorResponse> {
        let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
        let headers = response.headers_mut();
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
        Ok(response)
    }
}

async fn talk(stream: TcpStream, store: &DatabaseConnection) -> Result<()> {
    stream.set_nodelay(true).map_err(failed)?;
    let accepted = accept_hdr_async(stream, AcceptSubprotocol).await;
    let mut socket = accepted.map_err(failed)?;
    let call = "call_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().map_err(failed)?;
    while let Some(frame) = socket.next().await {
        let Frame::Text(text) = frame.map_err(failed)? else {
            continue;
        };
        let id = quoted(text.as_bytes(), b"\"id\":\"").unwrap_or_default();
        let id = std::str::from_utf8(id).map_err(failed)?;
        commit(store).await.map_err(failed)?;
        let decision = CallDecision::Answer {
            call,
            agent: (),
            callee: CalleeNames::default(),
        };
        let reply = json!(Reply::new(id, decision));
        socket
            .send(Frame::text(reply.to_string()))
            .await
            .map_err(failed)?;
    }
    Ok(())
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
