//! A shell that owns the processes of a test and ends with this process, however that ends.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use crate::postgres::unprivileged_shell;

/// Each output line gets the prefix `| `. The exit code follows.
const LOOP: &str = r#"
while read -r line; do
  eval "$line" >said 2>&1 </dev/null
  code=$?
  sed 's/^/| /' said
  echo "exit $code"
done
"#;

/// A shell that runs the lines written to it.
#[derive(Debug)]
pub(crate) struct Shell {
    // The shell and its server end when this is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

impl Shell {
    /// Starts a shell as a user other than root. It runs a script, then lines in the folder where that left it.
    pub(crate) fn start(script: &str, settings: &[(&str, &Path)]) -> Self {
        let mut child = unprivileged_shell()
            .args(["-c", &format!("{script}{LOOP}")])
            .envs(settings.iter().copied())
            // Ctrl-C on the terminal ends the tests; the shell must survive it to clean up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Runs a line; returns its output and exit code.
    pub(crate) fn run(&mut self, line: &str) -> (String, i32) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        let mut said = String::new();
        loop {
            let mut answer = String::new();
            assert_ne!(
                self.output.read_line(&mut answer).unwrap(),
                0,
                "the shell is gone"
            );
            if let Some(code) = answer.strip_prefix("exit ") {
                return (said, code.trim().parse().unwrap());
            }
            said.push_str(answer.strip_prefix("| ").unwrap_or(&answer));
        }
    }
}
