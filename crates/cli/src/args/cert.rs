//! The command line of `formant cert`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant cert init --host fed.example.org   an authority, and the server's certificate
  formant cert client hospital-1             a certificate for one client, in one file
  formant cert list                          who has a certificate, and until when
  formant cert renew hospital-1              a new key and a new end for the same name
  formant cert revoke hospital-1             from now on the server refuses it
  formant cert authority --beside            a new authority, while the old one is still trusted")]
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
    /// Make a new certificate with a new key for a name that has one
    #[command(after_help = "\
The certificate before stays good until its own end, so that a client can change over when it suits; with
--retire it is taken back now.

Examples:
  formant cert renew hospital-1 --days 365
  formant cert renew --server")]
    Renew(CertRenewArgs),
    /// Replace the authority while clients and server change over
    #[command(after_help = "\
In this order, each step when the one before has reached everybody:
  formant cert authority --beside            both are trusted, the new one signs; copy authority.pem and
                                             revoked.pem to the server and start it again
  formant cert renew NAME                    for every client: its new bundle trusts both
  formant cert renew --server                copy server.pem and server.key, start the server again
  formant cert authority --retire            only the new one is trusted; copy authority.pem again")]
    Authority(CertAuthorityArgs),
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

#[derive(Debug, Args)]
pub(crate) struct CertRenewArgs {
    /// The client's name
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    pub(crate) name: Option<String>,
    /// The server's certificate, for the hosts that it has
    #[arg(long)]
    pub(crate) server: bool,
    #[command(flatten)]
    pub(crate) place: DirArgs,
    /// How long it is good; never longer than the authority [default: 365, of the server 3650]
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Take the client's certificates before it back
    #[arg(long, conflicts_with = "server")]
    pub(crate) retire: bool,
}

#[derive(Debug, Args)]
#[group(id = "step", required = true, multiple = false, args = ["beside", "retire"])]
pub(crate) struct CertAuthorityArgs {
    /// Make a new authority beside the one that is here
    #[arg(long)]
    pub(crate) beside: bool,
    /// Trust the former authorities no longer
    #[arg(long)]
    pub(crate) retire: bool,
    #[command(flatten)]
    pub(crate) place: DirArgs,
    /// How long the new authority is good
    #[arg(long, value_name = "N", default_value_t = 3_650, conflicts_with = "retire")]
    pub(crate) days: u32,
}
