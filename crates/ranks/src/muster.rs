//! Before a run: who is there, and whether everybody is about to do the same.

use crate::codec::letter;
use crate::fabric::To;
use crate::follower::Place;
use crate::link::Link;
use crate::message::Order;
use formant_runtime::quantity::memory;
use formant_runtime::{Footprint, RunPlan, available};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// A rank that takes part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// The host that it runs on.
    pub host: String,
    /// Its worker threads.
    pub threads: usize,
    /// Whether it sees the run folder.
    pub sees: bool,
}

impl Spot {
    /// How people know it.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.host)
    }
}

/// What a rank says of itself. Whoever says something else than rank 0 is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The host.
    pub host: String,
    /// Processors that it may use, as the system names them; ranks with the same ones on one host share them.
    pub processors: String,
    /// How many these are.
    pub cores: usize,
    /// Bytes of memory that are free, where the system tells.
    pub memory: Option<u64>,
    /// The version of the program.
    pub version: String,
    /// A hash of its binary.
    pub binary: u64,
}

impl Card {
    /// This process's. An error if its binary cannot be read.
    pub fn own(link: &Link) -> Result<Self, String> {
        let host = link.host().to_owned();
        let fail = |error: std::io::Error| format!("cannot read the binary of {host}: {error}");
        let binary = std::env::current_exe().and_then(fs::read).map_err(fail)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(Self {
            processors: allowed.unwrap_or("all").trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: available(),
            version: env!("CARGO_PKG_VERSION").into(),
            binary: xxh3_64(&binary),
            host,
        })
    }
}

/// From rank 0: what is to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The binary and where it runs.
    pub card: Card,
    /// The resolved experiment, as the text of a file.
    pub experiment: String,
}

/// The answer to a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Greeting {
    /// Who answers.
    pub card: Card,
    /// The hash of its data if it can take part, or why it cannot.
    pub data: Result<String, String>,
}

/// From rank 0: where the run is.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Site {
    /// The run folder.
    run_dir: PathBuf,
    /// The name of a file that is there for this moment.
    token: String,
    threads: usize,
}

/// Whether a rank sees it: an error if it has nowhere else to go.
type Sight = Result<bool, String>;

/// Ranks that cannot take part, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused(pub Vec<(String, String)>);

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "not all ranks can take part")?;
        for (name, why) in &self.0 {
            write!(out, "\n  {name}: {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// A file of the network may be seen a moment after it was made.
const APPEARS: Duration = Duration::from_secs(5);

fn say(link: &Link, to: To, what: &impl Serialize) -> Result<(), String> {
    link.send(to, letter(0, what)?);
    Ok(())
}

fn hear<T: DeserializeOwned>(link: &Link, from: usize) -> Result<T, String> {
    link.next(from)?.head()
}

/// Rank 0 tells all others what is to be run. They get ready while it does.
pub fn call(link: &Link, call: &Call) -> Result<(), String> {
    if link.size() > 1 { say(link, To::All, call) } else { Ok(()) }
}

/// Everybody's answer. The ranks take part if all of them are about to run the same on the same data, with the same
/// binary, and if their hosts have the memory for it. `threads` are worker threads for each of them, if somebody has said
/// how many.
pub fn gather(
    link: &Link,
    own: &Card,
    plan: &RunPlan,
    threads: Option<usize>,
) -> Result<Vec<Spot>, Refused> {
    let data = &check_of(plan);
    let mut cards = vec![own.clone()];
    let mut refused = Vec::new();
    for rank in 1..link.size() {
        let name = |host: &str| format!("rank {rank} on {host}");
        match hear::<Greeting>(link, rank) {
            Err(why) => refused.push((format!("rank {rank}"), why)),
            Ok(Greeting { card, data: theirs }) => match check(own, &card, data, &theirs) {
                Some(why) => refused.push((name(&card.host), why)),
                None => cards.push(card),
            },
        }
    }
    if !refused.is_empty() {
        return Err(Refused(refused));
    }
    let spot = |card: &Card| Spot {
        host: card.host.clone(),
        threads: threads.unwrap_or_else(|| share_of(card, &cards)),
        sees: true,
    };
    let spots: Vec<Spot> = cards.iter().map(spot).collect();
    check_memory(&cards, &spots, &Footprint::of(plan))?;
    Ok(spots)
}

/// Ranks of one host share its memory: each fits alone, and all of them may not.
fn check_memory(cards: &[Card], spots: &[Spot], footprint: &Footprint) -> Result<(), Refused> {
    let mut hosts: BTreeMap<&str, (Option<u64>, u64, usize)> = BTreeMap::new();
    for (card, spot) in cards.iter().zip(spots) {
        let (free, needed, ranks) = hosts.entry(&card.host).or_default();
        // Who has looked first has seen most of it.
        *free = (*free).max(card.memory);
        *needed += footprint.with_workers(spot.threads.min(footprint.workers.max(1)));
        *ranks += 1;
    }
    let short = hosts.into_iter().filter_map(|(host, (free, needed, ranks))| {
        let free = free.filter(|free| *free < needed)?;
        Some((
            format!("the {ranks} ranks on {host}"),
            format!(
                "together they take at least {} of memory, and {} are free; start fewer of them there, or set runtime.threads lower",
                memory(needed),
                memory(free)
            ),
        ))
    });
    let short: Vec<(String, String)> = short.collect();
    if short.is_empty() { Ok(()) } else { Err(Refused(short)) }
}

fn check(own: &Card, card: &Card, data: &str, theirs: &Result<String, String>) -> Option<String> {
    if card.version != own.version || card.binary != own.binary {
        return Some(format!(
            "its binary is another one (version {}, hash {:016x}) than that of rank 0 ({}, {:016x}); copy one to all hosts",
            card.version, card.binary, own.version, own.binary
        ));
    }
    match theirs {
        Err(why) => Some(why.clone()),
        Ok(theirs) if theirs != data => Some(format!(
            "its data are others than those of rank 0 (hash {theirs} instead of {data}); give all hosts the same files"
        )),
        Ok(_) => None,
    }
}

/// Cores for each of the ranks that may use the same ones.
fn share_of(card: &Card, all: &[Card]) -> usize {
    let same = |other: &&Card| other.host == card.host && other.processors == card.processors;
    let sharing = all.iter().filter(same).count().max(1);
    (card.cores / sharing).max(1)
}

/// Rank 0 says where the run is, and learns who sees it.
pub fn settle(link: &Link, run_dir: &Path, spots: &mut [Spot]) -> Result<(), Refused> {
    if link.size() == 1 {
        return Ok(());
    }
    let own = |why: String| Refused(vec![(spots[0].name(0), why)]);
    let folder = run_dir.join("states");
    let token = format!("ranks-{}-{:x}", std::process::id(), token_number());
    let path = folder.join(&token);
    let made = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, b""));
    made.map_err(|error| own(format!("cannot write {}: {error}", path.display())))?;
    let run_dir = std::path::absolute(run_dir).unwrap_or_else(|_| run_dir.into());
    for (rank, spot) in spots.iter().enumerate().skip(1) {
        let site = Site { run_dir: run_dir.clone(), token: token.clone(), threads: spot.threads };
        say(link, To::One(rank), &site).map_err(own)?;
    }
    let mut refused = Vec::new();
    for (rank, spot) in spots.iter_mut().enumerate().skip(1) {
        match hear::<Sight>(link, rank).and_then(|sight| sight) {
            Ok(sees) => spot.sees = sees,
            Err(why) => refused.push((spot.name(rank), why)),
        }
    }
    // One too many costs nothing.
    let _ = fs::remove_file(path);
    if refused.is_empty() { Ok(()) } else { Err(Refused(refused)) }
}

/// Different in every run.
fn token_number() -> u128 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos())
}

/// Sends all other ranks home, whatever they wait for. There was no run, or it has ended.
pub fn dismiss(link: &Link) {
    for rank in 1..link.size() {
        // A rank that is lost has gone already.
        let _ = say(link, To::One(rank), &Order::Quit);
    }
}

/// Any other rank hears what is to be run, and says whether it can: `prepare` makes the plan, and an error of it is
/// rank 0's to tell. None if this rank is not needed.
pub fn answer(
    link: &Link,
    card: &Card,
    prepare: impl FnOnce(&Call) -> Result<RunPlan, String>,
) -> Result<Option<(RunPlan, Place)>, String> {
    let letter = link.next(0)?;
    let call: Call = match (letter.head(), letter.head()) {
        (Ok(call), _) => call,
        // Rank 0 has found something wrong before it could tell anybody what to do.
        (Err(_), Ok(Order::Quit)) => return Ok(None),
        (Err(why), _) => return Err(why),
    };
    let plan = if (&card.version, card.binary) == (&call.card.version, call.card.binary) {
        prepare(&call)
    } else {
        Err("its binary is another one".into())
    };
    let data = plan.as_ref().map(check_of).map_err(Clone::clone);
    say(link, To::One(0), &Greeting { card: card.clone(), data })?;
    let letter = link.next(0)?;
    let Ok(mut plan) = plan else { return Ok(None) };
    let Ok(site) = letter.head::<Site>() else { return Ok(None) };
    plan.threads = site.threads;
    let place = place(&site);
    say(
        link,
        To::One(0),
        &place.as_ref().map(|place| matches!(place, Place::Shared(_))).map_err(Clone::clone),
    )?;
    Ok(place.ok().map(|place| (plan, place)))
}

/// What tells data from others.
pub fn check_of(plan: &RunPlan) -> String {
    plan.header.data_check.clone().unwrap_or_else(|| plan.header.dataset.clone())
}

/// Where a rank keeps what is made durable: in the run folder if it sees that and may write there.
fn place(site: &Site) -> Result<Place, String> {
    let folder = site.run_dir.join("states");
    let begun = Instant::now();
    loop {
        if folder.join(&site.token).exists() {
            let probe = tempfile::NamedTempFile::new_in(&folder);
            if probe.is_ok() {
                return Ok(Place::Shared(folder));
            }
            break;
        }
        // A folder that is not there will not come.
        if !folder.exists() || begun.elapsed() > APPEARS {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let own = tempfile::Builder::new().prefix("formant-states-").tempdir();
    own.map(Place::Own).map_err(|error| {
        format!(
            "it neither sees the run folder {} nor can it make a folder of its own in {} ({error}); mount the one, or name another disk by TMPDIR",
            site.run_dir.display(),
            std::env::temp_dir().display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(host: &str, processors: &str, cores: usize) -> Card {
        let (host, processors) = (host.into(), processors.into());
        Card { host, processors, cores, memory: Some(100 << 30), version: "1".into(), binary: 7 }
    }

    #[test]
    fn ranks_share_the_cores_that_they_may_use() {
        let all =
            [card("a", "0-7", 8), card("a", "0-7", 8), card("a", "8-9", 2), card("b", "0-7", 8)];
        let threads: Vec<usize> = all.iter().map(|card| share_of(card, &all)).collect();
        assert_eq!(threads, [4, 4, 2, 8]);
        let crowd = vec![card("a", "0", 1); 3];
        assert_eq!(share_of(&crowd[0], &crowd), 1, "everybody has one");
    }

    #[test]
    fn ranks_of_one_host_have_to_fit_together() {
        let cards = [card("a", "0", 1), card("a", "1", 1), card("b", "0", 1)];
        let spot = |card: &Card| Spot { host: card.host.clone(), threads: 2, sees: true };
        let spots: Vec<Spot> = cards.iter().map(spot).collect();
        let taking = |worker: u64| Footprint {
            model: 1,
            shared: 10 << 30,
            worker: worker << 30,
            batch: 1,
            workers: 2,
        };
        check_memory(&cards, &spots, &taking(20)).unwrap();
        let refused = check_memory(&cards, &spots, &taking(21)).unwrap_err().to_string();
        assert!(
            refused.contains("the 2 ranks on a: together they take at least 104.0 GiB"),
            "{refused}"
        );
        assert!(!refused.contains("on b"), "{refused}");
        let unknown = cards.map(|card| Card { memory: None, ..card });
        check_memory(&unknown, &spots, &taking(21)).unwrap();
    }

    #[test]
    fn who_is_about_to_do_something_else_is_refused() {
        let own = card("a", "0", 1);
        assert_eq!(check(&own, &card("b", "0-3", 4), "d", &Ok("d".into())), None);
        let other = Card { binary: 8, ..own.clone() };
        assert!(check(&own, &other, "d", &Ok("d".into())).unwrap().contains("binary"));
        assert!(check(&own, &own, "d", &Ok("e".into())).unwrap().contains("hash e instead of d"));
        let why = check(&own, &own, "d", &Err("no data here".into()));
        assert_eq!(why.unwrap(), "no data here");
    }
}
