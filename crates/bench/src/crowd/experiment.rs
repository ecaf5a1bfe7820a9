//! What is measured: how many clients, how large a model, who goes away; and the server's file for it.

use anyhow::ensure;
use formant_network::parse_bytes;
use std::path::Path;

/// Bytes that one hidden unit of the network adds to a model: 784 weights to it, one bias, ten from it.
const PER_UNIT: u64 = 4 * (784 + 1 + 10);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    /// Clients, each with a certificate, a connection and a loopback address of its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) clients: u32,
    /// Processes that they are divided among
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Size of the model
    #[arg(long, default_value = "0.2MB")]
    pub(crate) model: String,
    /// Rounds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Share of the clients that lose their connection in the middle of a round, each in another one
    #[arg(long, default_value_t = 0.0)]
    pub(crate) churn: f64,
    /// Share of the clients that a round asks
    #[arg(long, default_value_t = 1.0)]
    pub(crate) participation: f64,
    /// Connections that one process makes at the same time while its clients join
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) joining: u32,
    /// All clients come from one address, as behind one router
    #[arg(long)]
    pub(crate) one_address: bool,
    /// What is drawn: who goes away, when, and for how long
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A line of the server's section, such as `chunk = "64KiB"`; may be given again
    #[arg(long = "server", value_name = "LINE")]
    pub(crate) server: Vec<String>,
}

impl Plan {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.hidden()?;
        ensure!(
            (0.0..=1.0).contains(&self.churn),
            "--churn {} is no share\nhint: give a number from 0 to 1",
            self.churn
        );
        ensure!(
            self.participation > 0.0 && self.participation <= 1.0,
            "--participation {} is no share\nhint: give a number above 0 and up to 1",
            self.participation
        );
        Ok(())
    }

    /// Hidden units of a network of the wanted size.
    pub(crate) fn hidden(&self) -> anyhow::Result<u64> {
        let bytes = parse_bytes(&self.model).filter(|bytes| *bytes >= PER_UNIT);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= 1 << 30) else {
            anyhow::bail!(
                "--model {} is no size of a model\nhint: give one from 4kB to 1GiB, such as 3.5MB",
                self.model
            );
        };
        Ok((bytes + PER_UNIT / 2) / PER_UNIT)
    }

    /// The server's file. Its folders are relative to it.
    pub(crate) fn server_file(&self, folder: &Path) -> anyhow::Result<String> {
        let Self { clients, rounds, participation, seed, .. } = self;
        let path = |name: &str| toml::Value::from(folder.join(name).display().to_string());
        let (state, certs) = (path("server"), path("certs"));
        // One sample more than nothing: clients here have none. The generic model is scored once, at the end.
        Ok(format!(
            r#"name = "crowd"
rounds = {rounds}
seed = {seed}
[data]
source = "mnist-small"
clients = {clients}
[network]
name = "mlp"
hidden = [{hidden}]
[train]
participation = {participation:?}
[evaluation]
every = {rounds}
[[method]]
name = "fedavg"
[server]
listen = "127.0.0.1:0"
ops = "127.0.0.1:0"
state = {state}
certs = {certs}
{more}
"#,
            hidden = self.hidden()?,
            more = self.server.join("\n"),
        ))
    }

    /// The names that a server gives its clients unless it is told others.
    pub(crate) fn name(client: u32) -> String {
        format!("client-{client:03}")
    }

    /// The clients of a process.
    pub(crate) fn share(&self, process: u32) -> std::ops::Range<u32> {
        let at = |process: u32| {
            (u64::from(self.clients) * u64::from(process) / u64::from(self.processes)) as u32
        };
        at(process)..at(process + 1)
    }

    /// The command line that says the same to a child.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args: Vec<String> = [
            ("--clients", self.clients.to_string()),
            ("--processes", self.processes.to_string()),
            ("--model", self.model.clone()),
            ("--rounds", self.rounds.to_string()),
            ("--churn", self.churn.to_string()),
            ("--participation", self.participation.to_string()),
            ("--joining", self.joining.to_string()),
            ("--seed", self.seed.to_string()),
        ]
        .into_iter()
        .flat_map(|(key, value)| [key.to_owned(), value])
        .collect();
        args.extend(self.one_address.then(|| "--one-address".to_owned()));
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Plan,
    }

    fn plan(line: &str) -> Plan {
        Line::parse_from(std::iter::once("crowd").chain(line.split_whitespace())).plan
    }

    #[test]
    fn a_model_is_about_as_large_as_was_asked_for() {
        assert_eq!(plan("--model 0.2MB").hidden().unwrap(), 63);
        assert_eq!(plan("--model 3.5MB").hidden().unwrap(), 1_101);
        for wrong in ["--model 1", "--model many", "--churn 2", "--participation 0"] {
            let error = plan(wrong).check().unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn every_client_is_in_one_process() {
        let plan = plan("--clients 10 --processes 3");
        let all: Vec<u32> = (0..3).flat_map(|process| plan.share(process)).collect();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_child_is_told_the_same() {
        let given = plan("--clients 7 --churn 0.1 --one-address --seed 5 --model 1MB");
        let told = plan(&given.to_args().join(" "));
        assert_eq!(given.to_args(), told.to_args());
        assert!(told.one_address && told.churn == 0.1 && told.seed == 5);
    }
}
