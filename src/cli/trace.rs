//! `dikala call trace`: prints the SIP messages of a call, and writes them as a capture.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf};

use clap::Args;
use dikala_entities::{CallId, Millis};
use serde::Deserialize;
use serde_json::Value;

use super::{
    CliError,
    listener::{Listener, ListenerArgs},
    output,
    pcap::{CapturedMessage, capture},
};
use crate::config::{ConfigError, Layers};

/// Which call, and where to.
#[derive(Debug, Args)]
pub struct TraceOptions {
    /// The call's id.
    call: String,
    /// Write the messages to this file, which Wireshark and tshark read. Each is a UDP datagram there.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Show whole telephone numbers. That leaves an entry in the audit.
    #[arg(long)]
    numbers: bool,
    #[command(flatten)]
    listener: ListenerArgs,
}

/// The listener's answer.
#[derive(Debug, Deserialize)]
struct TracedCall {
    messages: Vec<TracedMessage>,
    forgotten: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TracedMessage {
    at: Millis,
    direction: String,
    transport: String,
    local: SocketAddr,
    remote: SocketAddr,
    sdp: Option<String>,
    text: String,
}

impl TracedMessage {
    fn is_sent(&self) -> bool {
        self.direction == "sent"
    }

    fn captured(&self) -> CapturedMessage<'_> {
        let (from, to) = match self.is_sent() {
            true => (self.local, self.remote),
            false => (self.remote, self.local),
        };
        CapturedMessage {
            at_ms: self.at.as_i64(),
            from,
            to,
            text: &self.text,
        }
    }

    /// A heading and the message, indented.
    fn shown(&self) -> String {
        let arrow = if self.is_sent() { "->" } else { "<-" };
        let (at, transport, local, remote) = (self.at, &self.transport, self.local, self.remote);
        let mut shown = format!("{at} {transport} {local} {arrow} {remote}");
        if let Some(sdp) = &self.sdp {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\n  [{}]", output::cell(&Value::from(sdp.as_str())));
        }
        for line in self.text.trim_end().lines() {
            let line = match line {
                "" => String::new(),
                line => output::cell(&Value::from(line)),
            };
            let _ = write!(shown, "\n  {line}");
        }
        shown
    }
}

/// Prints the messages; with a file, writes them too.
pub async fn run(
    options: TraceOptions,
    layers: impl FnOnce() -> Result<Layers, ConfigError>,
    as_json: bool,
) -> Result<(), CliError> {
    let call: CallId = options.call.parse().map_err(|_| {
        let call = &options.call;
        CliError::Usage(format!(
            "{call:?} is no call; give an id such as call_01k9…, of `dikala call list`"
        ))
    })?;
    let numbers = if options.numbers { "full" } else { "masked" };
    let path = format!("/calls/{call}/sip?numbers={numbers}");
    let found = Listener::new(options.listener, layers)?.get(&path).await?;
    let traced = TracedCall::deserialize(&found).map_err(|error| {
        CliError::Failed(format!(
            "the listener answers as no version that this one knows ({error}); use the `dikala` of the same version"
        ))
    })?;
    if let Some(file) = &options.pcap {
        let bytes = capture(traced.messages.iter().map(TracedMessage::captured));
        std::fs::write(file, bytes).map_err(|error| {
            CliError::Failed(format!(
                "{file:?} cannot be written ({error}); give --pcap another file"
            ))
        })?;
    }
    if as_json {
        return output::text(&found.to_string());
    }
    if traced.forgotten > 0 {
        let forgotten = output::count(traced.forgotten, "older message");
        output::text(&format!("{forgotten} no longer kept\n"))?;
    }
    for message in &traced.messages {
        output::text(&format!("{}\n", message.shown()))?;
    }
    match &options.pcap {
        Some(file) => output::text(&format!("written to {}", file.display())),
        None => Ok(()),
    }
}
