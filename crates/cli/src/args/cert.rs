//! The command line of `formant cert`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant cert init --host fed.example.org   an authority, and the server's certificate
  formant cert client hospital-1             a certificate for one client, in one file
  formant cert list                          who has a certificate, and until when
  formant cert revoke hospital-1             from now on the server refuses it")]
pub(crate) struct CertArgs {
    #[command(subcommand)]
    pub(crate) command: CertCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Make an authority and the server's certificate
    #[command(after_help = "\
Examples:
  formant cert init
  formant cert init --host fed.example.org --host 192.0.2.7")]
    Init(CertInitArgs),
    /// Make or renew the server's certificate
    #[command(after_help = "\
Example:
  formant cert server --host fed.example.org --host 192.0.2.7")]
    Server(CertServerArgs),
    /// Make a client's certificate
    #[command(after_help = "\
Examples:
  formant cert client hospital-1
  for n in 1 2 3; do formant cert client hospital-$n --days 90; done")]
    Client(CertClientArgs),
    /// Take a client's certificates back
    #[command(after_help = "\
Example:
  formant cert revoke hospital-1")]
    Revoke(CertRevokeArgs),
    /// List the certificates: for whom, until when, and which are revoked
    List(CertListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DirArgs {
    /// Folder of the authority
    #[arg(long, value_name = "DIR", default_value = "certs")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// A name or IP address by which clients call the server (repeatable) [default: localhost,
    /// 127.0.0.1 and ::1]
    #[arg(long = "host", value_name = "NAME_OR_IP")]
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CertInitArgs {
    #[command(flatten)]
    pub(crate) place: DirArgs,
    #[command(flatten)]
    pub(crate) names: HostArgs,
    /// How long the authority and the server's certificate are good
    #[arg(long, value_name = "N", default_value_t = 3_650)]
    pub(crate) days: u32,
    /// Replace an existing authority; all of its certificates become worthless
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CertServerArgs {
    #[command(flatten)]
    pub(crate) place: DirArgs,
    #[command(flatten)]
    pub(crate) names: HostArgs,
    /// How long it is good; never longer than the authority
    #[arg(long, value_name = "N", default_value_t = 3_650)]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct CertClientArgs {
    /// The client's name: letters, digits and - _ . , at most 64
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: DirArgs,
    /// How long it is good; never longer than the authority
    #[arg(long, value_name = "N", default_value_t = 365)]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct CertRevokeArgs {
    /// The client's name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: DirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CertListArgs {
    #[command(flatten)]
    pub(crate) place: DirArgs,
    /// Machine-readable list
    #[arg(long)]
    pub(crate) json: bool,
}
