//! Describes the machine that figures were measured on.

use std::fs;

use serde::Serialize;

/// Said before and after the figures of such a build.
pub const DEBUG_BUILD: &str = "This is a debug build: several times slower than a release, so its figures and missed goals mean \
     nothing. Measure with cargo run --profile bench -- bench";

/// The machine as Linux describes it. Unknown fields are empty or 0.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredMachine {
    cores: usize,
    cpu: String,
    kernel: String,
    memory_bytes: u64,
    /// This program was built without optimisation: its figures say nothing.
    debug_build: bool,
}

impl MeasuredMachine {
    pub fn this() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kib: u64 = value(&memory, "MemTotal")
            .and_then(|text| text.trim_end_matches(" kB").parse().ok())
            .unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: value(&cpus, "model name").unwrap_or_default().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: kib * 1_024,
            debug_build: cfg!(debug_assertions),
        }
    }

    /// The machine in one line, and a warning of a debug build.
    pub fn words(&self) -> String {
        let gib = self.memory_bytes / 1_024 / 1_024 / 1_024;
        let Self {
            cores, cpu, kernel, ..
        } = self;
        let mut words = format!("{cores} cores of {cpu}, {gib} GiB, Linux {kernel}");
        if self.debug_build {
            words = format!("{words}\n{DEBUG_BUILD}");
        }
        words
    }
}

/// The value of the first `name: value` line, the format of files in `/proc`.
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.trim() == name)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name() {
        let text = "VmHWM:\t  20 kB\nVmRSS:\t   10 kB\nmodel name\t: A: B\n";
        assert_eq!(value(text, "VmRSS"), Some("10 kB"));
        assert_eq!(value(text, "model name"), Some("A: B"));
        assert_eq!(value(text, "RSS"), None);
    }
}
