//! Spans on their way to the operator's collector, where one is configured.

use std::{sync::Arc, time::Duration};

use actix_web::rt;
use dikala_actors::{
    outbound::{AllowedHosts, Guard, Outbound},
    runtime::clock::SharedClock,
    traces::{Exporter, ExporterConfig, Traces},
};
use tokio::sync::watch;

use super::StartError;
use crate::config::Settings;

/// How long the last spans may take at a stop.
const FINISH_WITHIN: Duration = Duration::from_secs(3);

/// What sends spans away, until it is finished.
pub(super) struct Exporting {
    task: rt::task::JoinHandle<()>,
    finish: watch::Sender<bool>,
}

impl Exporting {
    /// Begins, on this thread, where an endpoint is configured.
    pub(super) fn start(
        settings: &Settings,
        clock: &SharedClock,
    ) -> Result<(Traces, Option<Self>), StartError> {
        let Some(uri) = settings.traces().and_then(|url| url.as_str().parse().ok()) else {
            return Ok((Traces::default(), None));
        };
        // The operator says where it is, and need not be protected from himself.
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

    /// Sends what is left, if somebody takes it in time.
    pub(super) async fn finish(self) {
        let _ = self.finish.send(true);
        let _ = tokio::time::timeout(FINISH_WITHIN, self.task).await;
    }
}
