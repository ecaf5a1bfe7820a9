//! The processes of a measurement: they are started, told to begin and listened to, and the server's
//! memory and processor time are read.

use super::clients::Notes;
use super::experiment::Plan;
use super::report::{Moment, Report};
use super::server::Said;
use super::{certificates, outcome};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a process takes of its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Seconds since 1970.
    pub(crate) at: f64,
    /// Memory, now and at most since it was last asked to begin anew, in bytes.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    /// Processor time so far, its own and in the kernel, in seconds.
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) threads: u64,
}

/// What only Linux says.
const LINUX: &str = "cannot read what a process takes\nhint: measure on Linux, where /proc says it";

impl Usage {
    /// Of a process, by its number or `self`.
    pub(crate) fn of(process: &str) -> anyhow::Result<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
        let (status, stat) = (read("status").context(LINUX)?, read("stat").context(LINUX)?);
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        };
        // Behind the name, which may have spaces in it; the kernel counts in hundredths of a second.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).context(LINUX)?;
        let ticks: Vec<u64> =
            rest.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
        let [user, system] = ticks[..] else { bail!(LINUX) };
        Ok(Self {
            at: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64(),
            resident: 1_024 * field("VmRSS").context(LINUX)?,
            peak: 1_024 * field("VmHWM").context(LINUX)?,
            user: user as f64 / 100.0,
            system: system as f64 / 100.0,
            threads: field("Threads").unwrap_or_default(),
        })
    }
}

/// The peak of this process is counted anew.
pub(crate) fn reset_peak() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context(LINUX)
}

/// A process that was started here, and ends with this.
struct Started {
    child: Child,
    name: String,
    said: Lines<BufReader<ChildStdout>>,
}

impl Started {
    fn new(name: String, args: &[String]) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find the own program")?;
        let mut child = Command::new(own)
            .arg("crowd")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the process of the {name}"))?;
        let said = child.stdout.take().context("a process without output")?;
        Ok(Self { child, name, said: BufReader::new(said).lines() })
    }

    fn next(&mut self) -> anyhow::Result<String> {
        match self.said.next() {
            Some(line) => Ok(line?),
            None => bail!("the process of the {} has ended early", self.name),
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        outcome(self.child.wait()?.code(), &self.name)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended by itself needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn heard(server: &mut Started) -> anyhow::Result<Said> {
    let line = server.next()?;
    serde_json::from_str(&line).with_context(|| format!("the server says {line}"))
}

/// Measures, from the certificates to the end of the run.
pub(crate) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    certificates::make(folder, plan.clients)?;
    let file = folder.join("server.toml");
    std::fs::write(&file, plan.server_file(folder)?)?;
    let state = folder.join("server");
    if state.exists() {
        // A run of an earlier measurement is over.
        std::fs::remove_dir_all(&state)?;
    }
    let args = ["server".to_owned(), file.display().to_string()];
    let mut server = Started::new("server".into(), &args)?;
    let Said::Listening(address) = heard(&mut server)? else { bail!("the server does not listen") };
    let usage = |server: &Started| Usage::of(&server.child.id().to_string());
    let empty = usage(&server)?;
    let began = Instant::now();
    let mut clients = Vec::new();
    for process in 0..plan.processes {
        let mut args = vec!["clients".to_owned()];
        args.extend(plan.to_args());
        let more = [
            ("--process", process.to_string()),
            ("--address", address.to_string()),
            ("--folder", folder.display().to_string()),
        ];
        args.extend(more.into_iter().flat_map(|(key, value)| [key.to_owned(), value]));
        clients.push(Started::new(format!("clients {process}"), &args)?);
    }
    for process in &mut clients {
        process.next()?;
    }
    let joined = began.elapsed().as_secs_f64();
    let idle = usage(&server)?;
    for process in &mut clients {
        let told = process.child.stdin.as_mut().context("a process without input")?;
        writeln!(told, "go")?;
    }
    let mut moments = vec![Moment { rounds: 0, usage: usage(&server)?, received: 0, sent: 0 }];
    let (fingerprint, stopped, metrics) = loop {
        match heard(&mut server)? {
            Said::Stands { rounds, usage, received, sent } => {
                moments.push(Moment { rounds, usage, received, sent });
            }
            Said::Over { fingerprint, stopped, metrics, .. } => {
                break (fingerprint, stopped, metrics);
            }
            Said::Listening(_) => {}
        }
    };
    let mut notes = Vec::new();
    for process in &mut clients {
        let line = process.next()?;
        notes.push(serde_json::from_str::<Notes>(&line).context("what clients have noted")?);
    }
    for process in clients.into_iter().chain([server]) {
        process.end()?;
    }
    Ok(Report::new(plan, [empty, idle], joined, &moments, notes, fingerprint, stopped, metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_takes_something() {
        let usage = Usage::of("self").unwrap();
        assert!(usage.resident > 1 << 20 && usage.peak >= usage.resident && usage.threads > 0);
        assert!(Usage::of("none").unwrap_err().to_string().contains("\nhint: "));
    }
}
