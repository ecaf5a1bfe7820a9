//! The audit log of a server: who was there, what came, what became of it, in lines that nobody can
//! change, take out or cut off unnoticed.
//!
//! Every line of `audit.jsonl` ends with its `chain`: the SHA-256 of the chain before it and of the line
//! itself. Where the log stood is in the server's manifest as well, so that a log whose end was cut off
//! does not pass for a shorter one. Whoever can write the folder can forge both; to be safe from that,
//! note the chain elsewhere from time to time and compare (`formant audit verify --head CHAIN`).
//!
//! A line is about a client by name. It never holds a model, a sample or a score of a client's own.

mod book;

pub(crate) use book::Book;

use crate::error::NetworkError;
use crate::wire::hex;
use formant_runtime::{RuntimeError, files};
use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// The log's name in a server's folder.
pub const FILE: &str = "audit.jsonl";

/// What opens the last member of a line, and what closes it.
const KEY: &str = ",\"chain\":\"";
const END: &str = "\"}";
const DIGITS: usize = 64;

/// A place in the log, behind one of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Lines up to here.
    pub lines: u64,
    /// Bytes up to here.
    pub bytes: u64,
    /// The chain of the last of them.
    pub chain: String,
}

impl Default for Head {
    fn default() -> Self {
        Self { lines: 0, bytes: 0, chain: "0".repeat(DIGITS) }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number, from 1.
    pub line: u64,
    /// When it was written, by the server's clock.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// A server has opened the folder.
    Opened {
        /// The run's own name.
        run: String,
        /// How often the run was taken back.
        generation: u32,
        /// The version of the program.
        formant: String,
    },
    /// A client has connected.
    Joined {
        /// Who.
        client: String,
        /// SHA-256 of its certificate, if there are certificates.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
    },
    /// A connection or a call was refused.
    Refused {
        /// Who, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// What was asked for.
        call: String,
        /// The round that it was about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        round: Option<u64>,
        /// A word.
        reason: String,
        /// A sentence.
        detail: String,
    },
    /// An upload is kept, and will be aggregated.
    Kept {
        /// From whom.
        client: String,
        /// The round that it answers.
        round: u64,
        /// Its size.
        bytes: u64,
        /// XXH3-128 of what was sent.
        hash: String,
        /// How far it is from the broadcast that it answers.
        norm: f64,
        /// The samples that it claims: its weight.
        samples: u64,
        /// The mean loss of the phase that has made it, if its client says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// What a client has sent was taken out before it counted.
    Withdrawn {
        /// Whose.
        client: String,
        /// The round that was open.
        round: u64,
    },
    /// A client could not answer.
    Failed {
        /// Who.
        client: String,
        /// Which round.
        round: u64,
        /// Why, in its words.
        why: String,
    },
    /// A round is aggregated.
    Aggregated {
        /// Which.
        round: u64,
        /// Whose uploads are in it.
        clients: Vec<String>,
        /// XXH3-128 of the server's state after it.
        state: String,
        /// What did not count as it was sent, by client.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        verdicts: Vec<Verdict>,
    },
    /// The run was taken back.
    RolledBack {
        /// To the state after so many rounds.
        round: u64,
        /// From so many.
        from: u64,
        /// Who takes no part from then on.
        excluded: Vec<String>,
    },
    /// The run is over.
    Ended {
        /// After so many rounds.
        rounds: u64,
        /// Why before its last round, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<String>,
    },
    /// Lines of which there were too many in a round.
    Omitted {
        /// How many.
        lines: u64,
    },
    /// The log was found damaged when a server opened it.
    Damaged {
        /// What was found.
        found: String,
        /// Where it should have stood by the manifest.
        expected: Head,
    },
}

/// What the server's way to combine uploads has made of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whose it was.
    pub client: String,
    /// What was done to it, in a word: [`Treatment`](formant_methods::Treatment) has them.
    pub verdict: String,
    /// How much of it has counted, from 0 to 1.
    pub share: f64,
}

impl Entry {
    /// Whether it says something about a client.
    pub fn concerns(&self, name: &str) -> bool {
        match self {
            Self::Aggregated { verdicts, .. } => verdicts.iter().any(|it| it.client == name),
            Self::RolledBack { excluded, .. } => excluded.iter().any(|client| client == name),
            _ => self.client() == Some(name),
        }
    }

    /// Whom it is about, if it is about one client.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Joined { client, .. }
            | Self::Kept { client, .. }
            | Self::Withdrawn { client, .. }
            | Self::Failed { client, .. } => Some(client),
            Self::Refused { client, .. } => client.as_deref(),
            _ => None,
        }
    }
}

/// What a look at the whole log has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Where the log ends, as far as it holds together.
    pub head: Head,
    /// What is wrong with it, in words; nothing if it is as it was written.
    pub problems: Vec<String>,
}

/// Checks every line of a server's folder, and that none is missing at the end. `noted` is a chain that
/// somebody has noted: it must be that of one of the lines.
pub fn verify(folder: &Path, noted: Option<&str>) -> Result<Verified, NetworkError> {
    let expected = expected(folder)?;
    let mut seen = noted.is_none();
    let mut problems = Vec::new();
    let scan = scan(&folder.join(FILE), expected.as_ref(), &mut |record, chain| {
        seen |= noted == Some(chain);
        if let Entry::Damaged { found, .. } = &record.entry {
            problems.push(format!("line {}: a server found the log damaged: {found}", record.line));
        }
    })?;
    problems.extend(scan.fault);
    if !seen {
        let noted = noted.unwrap_or_default();
        problems.push(format!("no line has the chain {noted}, though somebody has noted it"));
    }
    if expected.is_none() {
        problems.push(
            "there is no manifest.json beside it, so lines may be missing at the end".to_owned(),
        );
    }
    Ok(Verified { head: scan.head, problems })
}

/// Every line that can be read, checked or not.
pub fn records(folder: &Path) -> Result<Vec<Record>, NetworkError> {
    let mut records = Vec::new();
    for line in lines(&folder.join(FILE))? {
        let line = line?;
        records.extend(serde_json::from_slice::<Record>(&line.bytes));
    }
    Ok(records)
}

/// Where the manifest says that the log stood.
fn expected(folder: &Path) -> Result<Option<Head>, NetworkError> {
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(default)]
        audit: Head,
    }
    let hint = "restore the whole state folder from a copy";
    let manifest: Option<Manifest> = files::read_manifest(&folder.join("manifest.json"), hint)?;
    Ok(manifest.map(|manifest| manifest.audit))
}

/// How far a log holds together.
struct Scan {
    head: Head,
    fault: Option<String>,
}

struct Line {
    bytes: Vec<u8>,
    is_whole: bool,
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line, RuntimeError>>, NetworkError> {
    let file = match File::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(RuntimeError::file("read", path, error).into()),
    };
    let path = path.to_owned();
    let mut reader = file.map(BufReader::new);
    Ok(std::iter::from_fn(move || {
        let mut bytes = Vec::new();
        match reader.as_mut()?.read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
                Some(Ok(Line { bytes, is_whole }))
            }
            Err(error) => {
                reader = None;
                Some(Err(RuntimeError::file("read", &path, error)))
            }
        }
    }))
}

/// Follows the chain from the first line on.
fn scan(
    path: &Path,
    expected: Option<&Head>,
    look: &mut dyn FnMut(&Record, &str),
) -> Result<Scan, NetworkError> {
    let mut head = Head::default();
    for line in lines(path)? {
        let Line { bytes, is_whole } = line?;
        let number = head.lines + 1;
        if !is_whole {
            // A server that was killed while it wrote. What a manifest tells of is whole.
            break;
        }
        let broken = |why: &str| Some(format!("line {number}: {why}"));
        let Some((record, chain)) = take_apart(&bytes) else {
            return Ok(Scan { head, fault: broken("it is no line of an audit log") });
        };
        if chain != chained(&head.chain, &bytes[..bytes.len() - KEY.len() - DIGITS - END.len()]) {
            let why = "it was changed, or a line before it is missing, moved or another's";
            return Ok(Scan { head, fault: broken(why) });
        }
        look(&record, &chain);
        head = Head { lines: number, bytes: head.bytes + bytes.len() as u64 + 1, chain };
        if let Some(expected) = expected.filter(|expected| expected.lines == number)
            && *expected != head
        {
            return Ok(Scan { head, fault: broken("it is not the one that manifest.json names") });
        }
    }
    let missing = expected.map_or(0, |expected| expected.lines.saturating_sub(head.lines));
    let fault = (missing > 0).then(|| format!("{missing} lines are missing at the end"));
    Ok(Scan { head, fault })
}

/// A line and the chain that it claims.
fn take_apart(line: &[u8]) -> Option<(Record, String)> {
    let text = str::from_utf8(line).ok()?;
    let chain = text.strip_suffix(END)?;
    let (body, chain) = chain.split_at_checked(chain.len().checked_sub(DIGITS)?)?;
    body.strip_suffix(KEY)?;
    Some((serde_json::from_str(text).ok()?, chain.to_owned()))
}

/// The chain of a line, of which the body is everything before that member.
fn chained(before: &str, body: &[u8]) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(before.as_bytes());
    hash.update(body);
    hex(hash.finish().as_ref())
}

#[cfg(test)]
mod tests;
