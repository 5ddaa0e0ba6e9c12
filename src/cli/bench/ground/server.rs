//! The service as a child process, and its resource use as Linux and its metrics report it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::cli::bench::{Result, failed, machine};

/// Linux reports process time in hundredths of a second (`USER_HZ`) on all supported machines.
const TICK_US: u64 = 10_000;
/// Bytes of the log that an error shows when the server does not start.
const LOG_SHOWN: usize = 2_000;

/// A running `dikala serve`. Dropping it kills the process.
#[derive(Debug)]
pub struct MeasuredServer {
    child: Child,
    pub http: SocketAddr,
    pub gauge: Gauge,
    /// Time from the process's start to its line `ready`.
    pub start: Duration,
}

/// Reads the server's resource use and metrics from any thread. It does not keep the server alive.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    process: u32,
    operator: SocketAddr,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    pub folder: PathBuf,
    pub database: String,
    pub key: String,
}

impl ServerSetup {
    /// Blocks until the server is ready.
    pub fn start(&self) -> Result<MeasuredServer> {
        let log = self.folder.join("serve.log");
        let mut files = File::options();
        let errors = files.create(true).append(true).open(&log).map_err(failed)?;
        let began = Instant::now();
        let program = std::env::current_exe().map_err(failed)?;
        let kept = |name: &std::ffi::OsStr| name == "PATH" || name == "TMPDIR" || name == "HOME";
        let child = Command::new(program)
            .arg("serve")
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| kept(name)))
            .envs([
                ("DIKALA_HTTP__LISTEN", "127.0.0.1:0"),
                ("DIKALA_OPERATOR__LISTEN", "127.0.0.1:0"),
                ("DIKALA_OUTBOUND__ALLOW_HTTP", "true"),
                ("DIKALA_OUTBOUND__ALLOW_CIDRS", "127.0.0.0/8"),
                // With an old `at`, calls have been ringing for a while already.
                ("DIKALA_CALLS__RING_TIMEOUT_SECONDS", "3600"),
                ("DIKALA_LOG__FORMAT", "json"),
                ("DIKALA_DATABASE__URL", &self.database),
                ("DIKALA_SECRETS__KEY", &self.key),
            ])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        let nowhere = ([127, 0, 0, 1], 0).into();
        let mut server = MeasuredServer {
            gauge: Gauge {
                process: child.id(),
                operator: nowhere,
            },
            child,
            http: nowhere,
            start: Duration::ZERO,
        };
        let output = server.child.stdout.take().expect("it was asked for");
        let mut lines = BufReader::new(output).lines();
        let ready = lines
            .by_ref()
            .map_while(std::result::Result::ok)
            .find_map(|line| {
                let (http, operator) = line
                    .strip_prefix("ready http=http://")?
                    .split_once(" operator=http://")?;
                Some((http.parse().ok()?, operator.trim_end().parse().ok()?))
            });
        server.start = began.elapsed();
        let Some((http, operator)) = ready else {
            return Err(failed(format!(
                "the server did not start: {}",
                end_of(&log)
            )));
        };
        (server.http, server.gauge.operator) = (http, operator);
        Ok(server)
    }
}

impl Gauge {
    /// The processor time used so far, over all threads.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = self.proc("stat")?;
        // The program's name is in parentheses and may contain spaces or parentheses.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok());
        match (ticks(), ticks()) {
            (Some(user), Some(system)) => Ok(Duration::from_micros((user + system) * TICK_US)),
            _ => Err(failed("Linux does not say how much time the server used")),
        }
    }

    /// The resident memory, in bytes.
    pub fn memory(&self) -> Result<u64> {
        resident(&self.proc("status")?)
    }

    fn proc(&self, file: &str) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.process)).map_err(|error| {
            failed(format!(
                "the server's figures in /proc cannot be read: {error}"
            ))
        })
    }

    /// The transactions and items of group commits so far, of the writer with the most.
    pub fn batches(&self) -> Result<Batches> {
        Ok(Batches::read(&self.metrics().map_err(failed)?))
    }

    /// The number of calls in memory. Calls that just ended are included.
    pub fn calls(&self) -> Result<u64> {
        let metrics = self.metrics().map_err(failed)?;
        calls_in_memory(&metrics).ok_or_else(|| failed("the server's metrics do not tell of calls"))
    }

    fn metrics(&self) -> std::io::Result<String> {
        let mut socket = TcpStream::connect(self.operator)?;
        // The operators' listener answers only requests whose `Host` is its own address.
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.operator
        );
        socket.write_all(request.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 200 ") {
            Ok(answer)
        } else {
            Err(std::io::Error::other("it does not show its metrics"))
        }
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The resident memory in `/proc/<pid>/status`, in bytes.
pub fn resident(status: &str) -> Result<u64> {
    let resident = machine::value(status, "VmRSS").and_then(|value| value.strip_suffix(" kB"));
    let kib: Option<u64> = resident.and_then(|kib| kib.parse().ok());
    kib.map(|kib| kib * 1_024)
        .ok_or_else(|| failed("Linux does not say how much memory a process has"))
}

fn calls_in_memory(metrics: &str) -> Option<u64> {
    let mut lines = metrics.lines();
    let line =
        lines.find_map(|line| line.strip_prefix("dikala_actor_instances{actor=\"call\"}"))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Counters of group commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    transactions: u64,
    items: u64,
}

impl Batches {
    fn read(metrics: &str) -> Self {
        let of = |name: &str| -> Vec<(String, u64)> {
            let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
            lines
                .filter_map(|line| {
                    let (labels, value) = line.rsplit_once(' ')?;
                    Some((labels.to_owned(), value.parse().ok()?))
                })
                .collect()
        };
        let transactions = of("dikala_batch_items_count");
        let most = of("dikala_batch_items_sum")
            .into_iter()
            .max_by_key(|(_, items)| *items);
        let (labels, items) = most.unwrap_or_default();
        let transactions = transactions.into_iter().find(|(found, _)| *found == labels);
        Self {
            transactions: transactions.map_or(0, |(_, count)| count),
            items,
        }
    }

    /// The mean number of items per transaction since `before`, at least 1.
    pub fn mean_since(self, before: Self) -> usize {
        let items = self.items.saturating_sub(before.items);
        let transactions = self.transactions.saturating_sub(before.transactions).max(1);
        usize::try_from(items.div_ceil(transactions))
            .unwrap_or(1)
            .max(1)
    }
}

fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let characters = text.chars().count().saturating_sub(LOG_SHOWN);
    text.chars()
        .skip(characters)
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_those_of_the_writer_that_wrote_most() {
        let metrics = "# TYPE dikala_batch_items histogram\ndikala_batch_items_count{writer=\"ledger\"} 5\n\
            dikala_batch_items_count{writer=\"other\"} 10\ndikala_batch_items_sum{writer=\"other\"} 640\n\
            dikala_batch_items_sum{writer=\"ledger\"} 320\ndikala_batch_items_bucket{writer=\"ledger\",le=\"+Inf\"} 900\n";
        let batches = Batches::read(metrics);
        assert_eq!(
            batches,
            Batches {
                transactions: 10,
                items: 640
            }
        );
        assert_eq!(batches.mean_since(Batches::default()), 64);
        assert_eq!(batches.mean_since(batches), 1);
        assert_eq!(Batches::read(""), Batches::default());
    }

    #[test]
    fn calls_in_memory_are_read_off_the_metrics() {
        let metrics = "# TYPE dikala_actor_instances gauge\ndikala_actor_instances{actor=\"call_registry\"} 1\n\
            dikala_actor_instances{actor=\"call\"} 7\n";
        assert_eq!(calls_in_memory(metrics), Some(7));
        assert_eq!(calls_in_memory(""), None);
    }

    #[test]
    fn this_process_has_memory() {
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        assert!(resident(&status).expect("a figure") > 1_024);
        assert!(resident("").is_err());
    }
}
