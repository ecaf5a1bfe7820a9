//! Before a run: who is there, and whether everybody is about to do the same.

mod card;
mod memory;
mod place;

pub use card::Card;

use crate::RanksError;
use crate::codec::{Introduction, Letter, introducing, letter, quitting};
use crate::fabric::To;
use crate::follower::Place;
use crate::link::Link;
use crate::message::Order;
use formant_runtime::RunPlan;
use memory::{Need, Tenant, taken_since};
use place::{Probed, States, model_bytes, place, probe};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// A rank that takes part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// The host that it runs on.
    pub host: String,
    /// Its worker threads.
    pub threads: usize,
    /// Whether it keeps states in the run folder, which it sees.
    pub sees: bool,
}

impl Spot {
    /// How people know it.
    pub fn name(&self, rank: usize) -> String {
        name(rank, &self.host)
    }
}

fn name(rank: usize, host: &str) -> String {
    format!("rank {rank} on {host}")
}

/// From rank 0: what is to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
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
    /// Bytes of memory that it has taken for its plan, data included.
    pub taken: u64,
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

/// Whether a rank keeps its states there: an error if it has no place for them at all.
type Sight = Result<bool, String>;

fn say(link: &Link, to: To, what: &impl Serialize) -> Result<(), RanksError> {
    link.send(to, letter(0, what).map_err(RanksError::Protocol)?);
    Ok(())
}

fn hear<T: DeserializeOwned>(link: &Link, from: usize) -> Result<T, RanksError> {
    link.next(from)?.head().map_err(RanksError::Protocol)
}

/// What somebody says, unless it is that nobody is needed.
fn unless_quit<T: DeserializeOwned>(letter: &Letter) -> Result<Option<T>, RanksError> {
    match (letter.head(), letter.head()) {
        (Ok(said), _) => Ok(Some(said)),
        (Err(_), Ok(Order::Quit)) => Ok(None),
        (Err(why), _) => Err(RanksError::Protocol(why)),
    }
}

/// Rank 0 tells all others what is to be run, once they have said that they are of its version: others would not
/// understand it. They get ready while it does.
pub fn call(link: &Link, own: &Card, call: &Call) -> Result<(), RanksError> {
    if link.size() == 1 {
        return Ok(());
    }
    let mine = own.introduction();
    for rank in 1..link.size() {
        link.send(To::One(rank), introducing(&mine));
    }
    let mut refused = Vec::new();
    for rank in 1..link.size() {
        match hear::<Introduction>(link, rank) {
            Err(why) => refused.push((format!("rank {rank}"), why.to_string())),
            Ok(other) if (&other.version, other.binary) != (&mine.version, mine.binary) => {
                let why = format!(
                    "its binary is another one (version {}, hash {:016x}) than that of rank 0 ({}, {:016x}); copy one to all hosts",
                    other.version, other.binary, mine.version, mine.binary
                );
                refused.push((name(rank, &other.host), why));
            }
            Ok(_) => {}
        }
    }
    if refused.is_empty() { say(link, To::All, call) } else { Err(RanksError::Refused(refused)) }
}

/// Everybody's answer. The ranks take part if all of them are about to run the same on the same data, and if their hosts
/// have the memory for it. `threads` are worker threads for each of them, if somebody has said how many.
pub fn gather(
    link: &Link,
    own: &Card,
    plan: &RunPlan,
    threads: Option<usize>,
) -> Result<Vec<Spot>, RanksError> {
    let data = &check_of(plan);
    let mut ranks = vec![(own.clone(), taken_since(own))];
    let mut refused = Vec::new();
    for rank in 1..link.size() {
        match hear::<Greeting>(link, rank) {
            Err(why) => refused.push((format!("rank {rank}"), why.to_string())),
            Ok(Greeting { card, data: theirs, taken }) => match check(own, &card, data, &theirs) {
                Some(why) => refused.push((name(rank, &card.host), why)),
                None => ranks.push((card, taken)),
            },
        }
    }
    if !refused.is_empty() {
        return Err(RanksError::Refused(refused));
    }
    let cards: Vec<Card> = ranks.iter().map(|(card, _)| card.clone()).collect();
    let tenants: Vec<Tenant> = (ranks.into_iter())
        .map(|(card, taken)| {
            let threads = threads.unwrap_or_else(|| card.share_of(&cards));
            Tenant { card, taken, threads }
        })
        .collect();
    Need::of(plan, tenants.len()).check(&tenants)?;
    let spot = |Tenant { card, threads, .. }| Spot { host: card.host, threads, sees: true };
    Ok(tenants.into_iter().map(spot).collect())
}

fn check(own: &Card, card: &Card, data: &str, theirs: &Result<String, String>) -> Option<String> {
    if card.instructions != own.instructions {
        return Some(format!(
            "its processor has other instructions ({}) than that of rank 0 ({}), by which spectra come out with other bits; choose hosts of one kind",
            card.instructions, own.instructions
        ));
    }
    match theirs {
        Err(why) => Some(why.clone()),
        Ok(theirs) if theirs != data => Some(format!(
            "its data are others than those of rank 0, or divided in another way (hash {theirs} instead of {data}); give all hosts the same files"
        )),
        Ok(_) => None,
    }
}

/// Rank 0 says where the run is, and learns who keeps its states there.
pub fn settle(
    link: &Link,
    run_dir: &Path,
    plan: &RunPlan,
    spots: &mut [Spot],
) -> Result<(), RanksError> {
    if link.size() == 1 {
        return Ok(());
    }
    let own = |why: String| RanksError::Refused(vec![(spots[0].name(0), why)]);
    let folder = run_dir.join("states");
    let token = format!("ranks-{}-{:x}", std::process::id(), token_number());
    let path = folder.join(&token);
    let made = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, b""));
    made.map_err(|error| own(format!("cannot write {}: {error}", path.display())))?;
    if let Probed::Cannot(why) = probe(&folder, model_bytes(plan)) {
        let _ = fs::remove_file(path);
        return Err(own(format!("{why}; free some space, or choose another folder with --out")));
    }
    let run_dir = std::path::absolute(run_dir).unwrap_or_else(|_| run_dir.into());
    for (rank, spot) in spots.iter().enumerate().skip(1) {
        let site = Site { run_dir: run_dir.clone(), token: token.clone(), threads: spot.threads };
        say(link, To::One(rank), &site)?;
    }
    let mut refused = Vec::new();
    for (rank, spot) in spots.iter_mut().enumerate().skip(1) {
        match hear::<Sight>(link, rank) {
            Ok(Ok(sees)) => spot.sees = sees,
            Ok(Err(why)) => refused.push((spot.name(rank), why)),
            Err(error) => refused.push((spot.name(rank), error.to_string())),
        }
    }
    // One too many costs nothing.
    let _ = fs::remove_file(path);
    if refused.is_empty() { Ok(()) } else { Err(RanksError::Refused(refused)) }
}

/// Different in every run.
fn token_number() -> u128 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos())
}

/// Sends all other ranks home, whatever they wait for, and of whatever version they are. There was no run, or it has
/// ended.
pub fn dismiss(link: &Link) {
    for rank in 1..link.size() {
        link.send(To::One(rank), quitting());
    }
}

/// Any other rank hears what is to be run, and says whether it can: `prepare` makes the plan, and an error of it is
/// rank 0's to tell. None if this rank is not needed.
pub fn answer(
    link: &Link,
    card: &Card,
    prepare: impl FnOnce(&Call) -> Result<RunPlan, String>,
) -> Result<Option<(RunPlan, Place)>, RanksError> {
    // Where rank 0 has found something wrong before it could tell anybody what to do, nobody is needed.
    let Some(Introduction { .. }) = unless_quit(&link.next(0)?)? else { return Ok(None) };
    link.send(To::One(0), introducing(&card.introduction()));
    // Nor is whoever rank 0 refuses for its version.
    let Some(call) = unless_quit::<Call>(&link.next(0)?)? else { return Ok(None) };
    let plan = prepare(&call);
    let data = plan.as_ref().map(check_of).map_err(Clone::clone);
    say(link, To::One(0), &Greeting { card: card.clone(), data, taken: taken_since(card) })?;
    let letter = link.next(0)?;
    let Ok(mut plan) = plan else { return Ok(None) };
    let Ok(site) = letter.head::<Site>() else { return Ok(None) };
    plan.threads = site.threads;
    let states = States::wanted(std::env::var(States::VARIABLE).ok().as_deref());
    let place =
        states.and_then(|states| place(&site, states, model_bytes(&plan), &std::env::temp_dir()));
    let sight: Sight =
        place.as_ref().map(|place| matches!(place, Place::Shared(_))).map_err(Clone::clone);
    say(link, To::One(0), &sight)?;
    Ok(place.ok().map(|place| (plan, place)))
}

/// What tells data, and who has which of them, from others. Of the samples themselves, all labels and some hundred samples
/// count.
pub fn check_of(plan: &RunPlan) -> String {
    let mut hash = Xxh3::new();
    for clients in [&plan.federation.clients, &plan.federation.newcomers.clients] {
        hash.update(&(clients.len() as u64).to_le_bytes());
        for data in clients {
            for part in [&data.train, &data.validation, &data.test] {
                hash.update(&(part.len() as u64).to_le_bytes());
                for index in part {
                    hash.update(&index.to_le_bytes());
                }
            }
        }
    }
    let data = plan.header.data_check.as_ref().unwrap_or(&plan.header.dataset);
    format!("{data}-{:016x}", hash.digest())
}

#[cfg(test)]
mod tests {
    use super::card::tests::card;
    use super::*;
    use crate::mesh::Mesh;

    #[test]
    fn who_is_about_to_do_something_else_is_refused() {
        let own = card("a", "0", 1);
        assert_eq!(check(&own, &card("b", "0-3", 4), "d", &Ok("d".into())), None);
        let older = Card { instructions: "sse4.1".into(), ..own.clone() };
        let why = check(&own, &older, "d", &Ok("d".into())).unwrap();
        assert!(why.contains("other instructions (sse4.1) than that of rank 0 (avx)"), "{why}");
        assert!(check(&own, &own, "d", &Ok("e".into())).unwrap().contains("hash e instead of d"));
        let why = check(&own, &own, "d", &Err("no data here".into()));
        assert_eq!(why.unwrap(), "no data here");
    }

    /// Rank 0, and a rank 1 that says what it is made to.
    fn beside<T: Send>(other: impl FnOnce(Link) -> T + Send, own: impl FnOnce(&Link)) -> T {
        let mut ends = Mesh::of(2).into_iter();
        let (here, there) = (ends.next().unwrap(), ends.next().unwrap());
        std::thread::scope(|scope| {
            let other = scope.spawn(move || other(Link::start(move || Ok(there)).unwrap()));
            let link = Link::start(move || Ok(here)).unwrap();
            own(&link);
            dismiss(&link);
            other.join().unwrap()
        })
    }

    #[test]
    fn another_version_is_refused_by_name_and_goes_in_peace() {
        let theirs = |link: Link| {
            // Of what it hears, it understands this and nothing else.
            assert!(hear::<Introduction>(&link, 0).is_ok());
            let later = b"formant ranks\n99.0\n00000000000000aa\nthere\nand what later ones add";
            link.send(To::One(0), later.to_vec());
            unless_quit::<Introduction>(&link.next(0).unwrap()).unwrap()
        };
        let told = beside(theirs, |link| {
            let call = Call { experiment: "seed = 1".into() };
            let why = super::call(link, &card("here", "0", 1), &call).unwrap_err().to_string();
            assert!(why.contains("rank 1 on there: its binary is another one"), "{why}");
            assert!(why.contains("version 99.0, hash 00000000000000aa"), "{why}");
        });
        assert_eq!(told, None, "it may go");
    }

    #[test]
    fn a_rank_of_another_version_says_who_it_is_and_goes() {
        let theirs = |link: Link| {
            let prepare = |_: &Call| -> Result<RunPlan, String> { panic!("nothing was called") };
            answer(&link, &card("there", "0", 1), prepare).unwrap().is_none()
        };
        let went = beside(theirs, |link| {
            let earlier = b"formant ranks\n0.0\n00000000000000aa\nhere".to_vec();
            link.send(To::One(1), earlier);
            let told: Introduction = hear(link, 1).unwrap();
            assert_eq!((told.host.as_str(), told.binary), ("there", 7));
        });
        assert!(went);
    }
}
