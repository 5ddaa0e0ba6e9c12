//! Metrics of this process from Linux' `/proc`. Empty on other systems.

use std::fs;

use super::exposition::{MetricFamily, MetricKind, MetricUnit};
use crate::front::open_files_max;

/// The metrics with Prometheus' standard names for processes.
pub fn metrics() -> Vec<MetricFamily> {
    let stat = read("stat");
    let (gauge, seconds) = (
        (MetricKind::Gauge, MetricUnit::Whole),
        (MetricKind::Gauge, MetricUnit::Seconds),
    );
    [
        (
            (MetricKind::Counter, MetricUnit::Seconds),
            "process_cpu_seconds_total",
            "Processor time of all threads",
            cpu_us(&stat),
        ),
        (
            seconds,
            "process_start_time_seconds",
            "Start of the process, in seconds since 1970",
            start_us(&stat),
        ),
        (
            gauge,
            "process_resident_memory_bytes",
            "Resident memory",
            status_bytes("VmRSS:"),
        ),
        (
            gauge,
            "process_virtual_memory_bytes",
            "Virtual memory",
            status_bytes("VmSize:"),
        ),
        (
            gauge,
            "process_open_fds",
            "Open files and sockets",
            fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| whole(files.count())),
        ),
        (
            gauge,
            "process_max_fds",
            "Limit of open files and sockets",
            open_files_max().and_then(|most| i64::try_from(most).ok()),
        ),
    ]
    .into_iter()
    .map(|(kind, name, help, value)| {
        let mut metric = MetricFamily::new(kind, name, &[], help);
        if let Some(value) = value {
            metric.number(&[], value);
        }
        metric
    })
    .collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default()
}

/// A field of `stat`, numbered as in its manual. Skips the program's name in brackets, which may hold anything.
fn field(stat: &str, number: usize) -> Option<u64> {
    let after_name = stat.rsplit(')').next()?;
    let mut fields = after_name.split_ascii_whitespace();
    fields.nth(number.checked_sub(3)?)?.parse().ok()
}

/// Ticks of the system's clock in microseconds.
fn ticks_us(ticks: u64) -> Option<i64> {
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    i64::try_from(ticks.checked_mul(1_000_000)? / a_second).ok()
}

fn cpu_us(stat: &str) -> Option<i64> {
    const USER: usize = 14;
    const SYSTEM: usize = 15;
    ticks_us(field(stat, USER)? + field(stat, SYSTEM)?)
}

fn start_us(stat: &str) -> Option<i64> {
    const STARTED: usize = 22;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let booted: i64 = booted.trim().parse().ok()?;
    booted
        .checked_mul(1_000_000)?
        .checked_add(ticks_us(field(stat, STARTED)?)?)
}

fn status_bytes(name: &str) -> Option<i64> {
    let status = read("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_any_name_is_read() {
        let stat =
            "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 12345 1000 10";
        assert_eq!(
            (field(stat, 14), field(stat, 15), field(stat, 22)),
            (Some(250), Some(50), Some(12_345))
        );
        assert_eq!(field("", 14), None);
    }

    #[test]
    fn this_process_began_before_now_and_has_memory() {
        let began = start_us(&read("stat")).expect("Linux");
        let now =
            dikala_actors::runtime::clock::Clock::now(&dikala_actors::runtime::clock::SystemClock);
        let age_ms = now.as_i64() - began / 1_000;
        assert!((-2_000..24 * 3_600 * 1_000).contains(&age_ms), "{age_ms}");
        assert!(status_bytes("VmRSS:") > Some(1_000_000));
        assert!(cpu_us(&read("stat")).is_some());
    }
}
