//! What a rank says of itself.

use super::memory::resident;
use crate::codec::Introduction;
use crate::{Link, RanksError};
use formant_runtime::available;
use serde::{Deserialize, Serialize};
use std::fs;
use xxhash_rust::xxh3::xxh3_64;

/// What a rank says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The host.
    pub host: String,
    /// Processors that it may use, as the system names them; ranks with the same ones on one host share them.
    pub processors: String,
    /// How many these are.
    pub cores: usize,
    /// Sets of instructions that change results: spectra are computed in another order by each of them.
    pub instructions: String,
    /// Bytes of memory that are free, where the system tells.
    pub memory: Option<u64>,
    /// Bytes of it that this process has taken.
    pub resident: u64,
    /// The version of the program.
    pub version: String,
    /// A hash of its binary.
    pub binary: u64,
}

impl Card {
    /// This process's. An error if its binary cannot be read.
    pub fn own(link: &Link) -> Result<Self, RanksError> {
        let host = link.host().to_owned();
        let fail = |source| RanksError::Binary { host: host.clone(), source };
        let binary = std::env::current_exe().and_then(fs::read).map_err(fail)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(Self {
            processors: allowed.unwrap_or("all").trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: instructions(),
            memory: available(),
            resident: resident(),
            version: env!("CARGO_PKG_VERSION").into(),
            binary: xxh3_64(&binary),
            host,
        })
    }

    pub(super) fn introduction(&self) -> Introduction {
        let Self { version, binary, host, .. } = self.clone();
        Introduction { version, binary, host }
    }

    /// Cores for this rank, of those that others may use as well.
    pub(super) fn share_of(&self, all: &[Self]) -> usize {
        let same = |other: &&Self| other.host == self.host && other.processors == self.processors;
        let sharing = all.iter().filter(same).count().max(1);
        (self.cores / sharing).max(1)
    }
}

/// What the transforms choose by.
fn instructions() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let sets = [
            ("sse4.1", std::arch::is_x86_feature_detected!("sse4.1")),
            ("avx", std::arch::is_x86_feature_detected!("avx")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
        ];
        let there: Vec<&str> =
            sets.iter().filter(|(_, there)| *there).map(|(set, _)| *set).collect();
        if there.is_empty() { "none of sse4.1, avx, fma".into() } else { there.join(" ") }
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH.into()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn card(host: &str, processors: &str, cores: usize) -> Card {
        let (host, processors) = (host.into(), processors.into());
        Card {
            host,
            processors,
            cores,
            instructions: "avx".into(),
            memory: Some(100 << 30),
            resident: 0,
            version: "1".into(),
            binary: 7,
        }
    }

    #[test]
    fn ranks_share_the_cores_that_they_may_use() {
        let all =
            [card("a", "0-7", 8), card("a", "0-7", 8), card("a", "8-9", 2), card("b", "0-7", 8)];
        let threads: Vec<usize> = all.iter().map(|card| card.share_of(&all)).collect();
        assert_eq!(threads, [4, 4, 2, 8]);
        let crowd = vec![card("a", "0", 1); 3];
        assert_eq!(crowd[0].share_of(&crowd), 1, "everybody has one");
    }
}
