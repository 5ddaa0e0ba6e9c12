//! Exports spans to the operator's collector, if one is configured.

use std::{sync::Arc, time::Duration};

use actix_web::rt;
use dikala_actors::{
    outbound::{AllowedHosts, Guard, Outbound},
    runtime::clock::SharedClock,
    traces::{Exporter, ExporterConfig, Traces},
};
use tokio::sync::watch;

use super::ServiceStartError;
use crate::config::Settings;

/// Longest time for the last spans when the service stops.
const FINISH_WITHIN: Duration = Duration::from_secs(3);

/// The running exporter.
pub(super) struct SpanExport {
    task: rt::task::JoinHandle<()>,
    finish: watch::Sender<bool>,
}

impl SpanExport {
    /// Starts the exporter on this thread, if an endpoint is configured.
    pub(super) fn start(
        settings: &Settings,
        clock: &SharedClock,
    ) -> Result<(Traces, Option<Self>), ServiceStartError> {
        let Some(uri) = settings.traces().and_then(|url| url.as_str().parse().ok()) else {
            return Ok((Traces::default(), None));
        };
        // The operator configures this address, so it is not guarded.
        let anywhere = Guard {
            allow_hosts: AllowedHosts::All,
            allow_http: true,
            ..Guard::default()
        };
        let config = ExporterConfig {
            uri,
            node: settings.node.name.as_str().into(),
            outbound: Outbound::new(anywhere, settings.extra_ca_file())?,
            clock: Arc::clone(clock),
        };
        let (traces, exporter) = Traces::start(config, &**clock);
        let (finish, finished) = watch::channel(false);
        let task = rt::spawn(Exporter::run(exporter, finished));
        Ok((traces, Some(Self { task, finish })))
    }

    /// Sends the remaining spans, within a time limit.
    pub(super) async fn finish(self) {
        let _ = self.finish.send(true);
        let _ = tokio::time::timeout(FINISH_WITHIN, self.task).await;
    }
}
