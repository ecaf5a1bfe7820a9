//! What the virtual clock says: time to a target, and what a schedule saves of it.

use super::{Results, Shown, Table};
use crate::quantity::duration;
use crate::results::groups::{Line, Pick, standings};
use crate::results::{ClockFigures, Outcome};
use crate::{Spread, Which};

/// What is taken of a pair of runs: round and seconds at which each has reached a target.
type OfPair<'p> = &'p dyn Fn(&((usize, f64), (usize, f64))) -> f64;

/// What is taken of a run.
type Figure<'f> = Box<dyn Fn(&Outcome) -> Option<f64> + 'f>;

/// The axis of the two schedules.
const SCHEDULE: &str = "federation.schedule";
const WAITING: &str = "compute-and-wait";
const FREE: &str = "wait-free";

/// Time to every target with and without the wait-free schedule. Both train the same models; where they did
/// not, there is nothing to compare.
pub(super) fn speedups(results: &Results) -> Table {
    let head = [
        "method",
        "setting",
        "target PM",
        "rounds",
        WAITING,
        FREE,
        "speedup",
        "paper",
        "difference",
        "shared : personal : network",
    ];
    let cells = results.grouped(|run| {
        let mut cell = run.cell.clone();
        cell.remove(SCHEDULE);
        results.cell_name(&cell)
    });
    let mut rows = Vec::new();
    for cell in &cells {
        for line in &cell.lines {
            for (place, target) in results.targets.iter().enumerate() {
                let gain = Gain::of(line, *target);
                let published = results.published(line.method, &cell.name, ORDINALS[place.min(1)]);
                let difference = gain.speedup.mean.zip(published).map(|(x, p)| x - p.mean);
                let shown = |x: Option<f64>, text: &dyn Fn(f64) -> String| {
                    Shown::plain(x.map_or("–".into(), text))
                };
                rows.push(vec![
                    Shown::plain(line.method),
                    Shown::plain(&cell.name),
                    Shown::plain(format!("{:.0} %", target * 100.0)),
                    shown(gain.rounds, &|x| format!("{}", (x * 10.0).round() / 10.0)),
                    shown(gain.waiting, &duration),
                    shown(gain.free, &duration),
                    Shown::plain(times(gain.speedup)),
                    Shown::plain(published.map_or("–".into(), |p| format!("{:.2}×", p.mean))),
                    shown(difference, &|x| format!("{x:+.2}")),
                    Shown::plain(
                        gain.parts.map_or("–".into(), |[s, p, n]| {
                            format!("{s:.2} : {p:.2} : {n:.2} s")
                        }),
                    ),
                ]);
            }
        }
    }
    Table { title: String::new(), head: head.map(str::to_owned).to_vec(), rows }
}

/// How presets name the paper's figures: those for its first and for its second target.
const ORDINALS: [&str; 2] = ["first", "second"];

fn times(spread: Spread) -> String {
    match (spread.mean, spread.deviation) {
        (None, _) => "–".into(),
        (Some(mean), None) => format!("{mean:.2}×"),
        (Some(mean), Some(deviation)) => format!("{mean:.2} ± {deviation:.2}×"),
    }
}

/// A method under both schedules, over seeds.
struct Gain {
    rounds: Option<f64>,
    waiting: Option<f64>,
    free: Option<f64>,
    speedup: Spread,
    parts: Option<[f64; 3]>,
}

impl Gain {
    fn of<'r>(line: &Line<'r>, target: f64) -> Self {
        let is_under =
            |run: &Outcome, schedule: &str| run.cell.get(SCHEDULE).is_some_and(|s| s == schedule);
        let pair = |slow: &&'r Outcome| {
            let rivals = line.runs.iter().filter(|run| is_under(run, FREE));
            let fast = rivals.copied().find(|fast| fast.seed == slow.seed)?;
            (slow.fingerprint == fast.fingerprint).then_some((*slow, fast))
        };
        let waiting = line.runs.iter().filter(|run| is_under(run, WAITING));
        let pairs: Vec<(&Outcome, &Outcome)> = waiting.filter_map(pair).collect();
        let reached: Vec<_> = pairs
            .iter()
            .map(|(slow, fast)| slow.reached(target).zip(fast.reached(target)))
            .collect();
        let mean = |pick: OfPair<'_>| {
            Spread::of(&reached.iter().map(|r| r.as_ref().map(pick)).collect::<Vec<_>>())
        };
        let none = Spread { mean: None, deviation: None };
        let any = !reached.is_empty();
        let mean = |pick: OfPair<'_>| {
            if any { mean(pick) } else { none }
        };
        let clocks: Vec<&ClockFigures> =
            pairs.iter().filter_map(|(slow, _)| slow.clock.as_ref()).collect();
        let average = |pick: fn(&ClockFigures) -> f64| {
            clocks.iter().map(|clock| pick(clock)).sum::<f64>() / clocks.len().max(1) as f64
        };
        Self {
            rounds: mean(&|(slow, _)| slow.0 as f64).mean,
            waiting: mean(&|(slow, _)| slow.1).mean,
            free: mean(&|(_, fast)| fast.1).mean,
            speedup: mean(&|(slow, fast)| slow.1 / fast.1),
            parts: (!clocks.is_empty())
                .then(|| [average(|c| c.shared), average(|c| c.personal), average(|c| c.network)]),
        }
    }
}

/// Accuracies and times, a table for each schedule.
pub(super) fn by_cell(results: &Results) -> Vec<Table> {
    let figures: [Pick; 4] = [
        |scores| scores.gm_best,
        |scores| scores.gm_last,
        |scores| scores.pm_best,
        |scores| scores.pm_last,
    ];
    let cells = results.cells();
    let tables = cells.iter().map(|cell| {
        let mut head = vec!["method".to_owned()];
        let mut rows: Vec<Vec<Shown>> =
            cell.lines.iter().map(|line| vec![Shown::plain(line.method)]).collect();
        for (which, pick) in Which::ALL.into_iter().zip(figures) {
            head.push(which.title().into());
            let own =
                |line: &Line<'_>| if which.is_generic() { line.generic() } else { line.personal() };
            let standings = standings(&cell.lines, which);
            for ((line, row), standing) in cell.lines.iter().zip(&mut rows).zip(standings) {
                row.push(Shown::figure(line.spread(pick), own(line), standing));
            }
        }
        let targets = results.targets.iter().map(|target| {
            let name = format!("time to PM {:.0} %", target * 100.0);
            let time = |run: &Outcome| run.reached(*target).map(|(_, seconds)| seconds);
            (name, Box::new(time) as Figure<'_>)
        });
        let end = |run: &Outcome| run.clock.as_ref().map(|clock| clock.closed);
        let idle = |run: &Outcome| run.clock.as_ref().and_then(|clock| clock.idle);
        let mut more: Vec<(String, Figure<'_>)> = targets.collect();
        more.push(("whole time".into(), Box::new(end)));
        for (name, pick) in more {
            head.push(name);
            for (line, row) in cell.lines.iter().zip(&mut rows) {
                row.push(Shown::plain(mean_of(line, &*pick).map_or("–".into(), duration)));
            }
        }
        head.push("idle".into());
        for (line, row) in cell.lines.iter().zip(&mut rows) {
            let share = mean_of(line, &idle);
            row.push(Shown::plain(share.map_or("–".into(), |x| format!("{:.0} %", x * 100.0))));
        }
        Table { title: cell.name.clone(), head, rows }
    });
    tables.collect()
}

/// The mean over seeds, if all have one.
fn mean_of(line: &Line<'_>, pick: &dyn Fn(&Outcome) -> Option<f64>) -> Option<f64> {
    Spread::of(&line.runs.iter().map(|run| pick(run)).collect::<Vec<_>>()).mean
}
