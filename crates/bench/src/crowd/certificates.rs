//! An authority, a certificate for the server and one for each client, as `formant cert` makes them.

use super::experiment::Plan;
use anyhow::Context as _;
use formant_network::identity::{Authority, Validity, file};
use std::path::{Path, PathBuf};

/// Certificates for a day; those that are there already serve again.
pub(crate) fn make(folder: &Path, clients: u32) -> anyhow::Result<PathBuf> {
    let dir = folder.join("certs");
    let validity = Validity::days(1)?;
    let mut authority = if dir.join(file::AUTHORITY).exists() {
        Authority::open(&dir)?
    } else {
        let mut authority = Authority::create(&dir, validity, false)?;
        authority.issue_server(&["127.0.0.1", "localhost"], validity)?;
        authority
    };
    for client in 0..clients {
        let name = Plan::name(client);
        if !bundle(folder, client).exists() {
            authority.issue_client(&name, validity).with_context(|| name.clone())?;
        }
    }
    Ok(dir)
}

/// All that a client needs.
pub(crate) fn bundle(folder: &Path, client: u32) -> PathBuf {
    let name = format!("{}.bundle.pem", Plan::name(client));
    folder.join("certs").join(file::CLIENTS).join(name)
}
