//! The processes of a measurement: they are started, told to begin and listened to, and the server's
//! memory and processor time are read.

use super::certificates;
use super::experiment::Plan;
use super::report::{Moment, Report};
use super::server::Said;
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
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

/// A line of a process, by its place; none when it has ended.
type Line = (usize, Option<String>);

/// A process that was started here, and ends with this.
struct Started {
    child: Child,
    name: String,
}

impl Started {
    /// Starts a process, which is heard under its place.
    fn new(
        name: &str,
        args: &[String],
        (place, lines): (usize, &Sender<Line>),
    ) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find the own program")?;
        let mut child = Command::new(own)
            .arg("crowd")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the process of the {name}"))?;
        let said = child.stdout.take().context("a process without output")?;
        let lines = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                let _ = lines.send((place, Some(line)));
            }
            let _ = lines.send((place, None));
        });
        Ok(Self { child, name: name.into() })
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(&self.child.id().to_string())
    }

    fn end(mut self) -> anyhow::Result<()> {
        let code = self.child.wait()?.code();
        ensure!(code == Some(0), "the process of the {} has failed ({code:?})", self.name);
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended by itself needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The place of the server's process.
const SERVER: usize = usize::MAX;

fn read(line: &str) -> anyhow::Result<Said> {
    serde_json::from_str(line).with_context(|| format!("the server says {line}"))
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
    let (lines, heard) = mpsc::channel::<Line>();
    let next = || -> anyhow::Result<(usize, String)> {
        let (place, line) = heard.recv().context("nobody says anything any more")?;
        Ok((place, line.context("a process has ended before the run was over")?))
    };
    let args = ["server".to_owned(), file.display().to_string()];
    let server = Started::new("server", &args, (SERVER, &lines))?;
    let Said::Listening(address) = read(&next()?.1)? else { bail!("the server does not listen") };
    let empty = server.usage()?;
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
        clients.push(Started::new("clients", &args, (process as usize, &lines))?);
    }
    for _ in &clients {
        next()?;
    }
    let joined = began.elapsed().as_secs_f64();
    let idle = server.usage()?;
    for process in &mut clients {
        let told = process.child.stdin.as_mut().context("a process without input")?;
        writeln!(told, "go")?;
    }
    let mut moments = vec![Moment { rounds: 0, usage: server.usage()?, received: 0, sent: 0 }];
    let mut notes = Vec::new();
    let (mut over, mut finished) = (None, Vec::new());
    while over.is_none() || notes.len() < clients.len() {
        let (place, line) = match heard.recv() {
            Ok((place, Some(line))) => (place, line),
            // One that has said everything ends.
            Ok((place, None)) if place == SERVER && over.is_some() => continue,
            Ok((place, None)) if finished.contains(&place) => continue,
            Ok((_, None)) => bail!("a process has ended before the run was over"),
            Err(_) => bail!("nobody says anything any more"),
        };
        if place != SERVER {
            finished.push(place);
            notes.push(serde_json::from_str(&line).context("what clients have noted")?);
            continue;
        }
        match read(&line)? {
            Said::Stands { rounds, usage, received, sent } => {
                moments.push(Moment { rounds, usage, received, sent });
            }
            said @ Said::Over { .. } => over = Some(said),
            Said::Listening(_) => {}
        }
    }
    let Some(Said::Over { fingerprint, stopped, metrics, .. }) = over else {
        bail!("the server does not say how the run has ended")
    };
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
