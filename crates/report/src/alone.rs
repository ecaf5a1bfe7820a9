//! Clients that are worse off than by training alone: a column of every table in which a method `local` stands.

use formant_runtime::event::Guarded;
use serde::Serialize;

use crate::Row;
use crate::scoreboard::Figure;

/// What stands above the column.
pub(crate) const WORSE_OFF: &str = "worse off";

/// What the column holds, for people who see it for the first time.
pub(crate) const READING: &str = "Worse off: clients whose model is worse at the last evaluation than the one that they \
     train alone (Local), of those that both are scored on.";

/// How many clients are worse off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WorseOff {
    /// So many.
    pub worse: usize,
    /// Of so many that were compared.
    pub clients: usize,
}

/// The same on average over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanWorseOff {
    /// So many.
    pub worse: f64,
    /// Of so many that were compared.
    pub clients: f64,
}

impl MeanWorseOff {
    /// None unless every run tells.
    pub(crate) fn of(runs: impl Iterator<Item = Option<WorseOff>>) -> Option<Self> {
        let found = runs.collect::<Option<Vec<WorseOff>>>().filter(|found| !found.is_empty())?;
        let mean = |of: fn(&WorseOff) -> usize| {
            found.iter().map(|one| of(one) as f64).sum::<f64>() / found.len() as f64
        };
        Some(Self { worse: mean(|one| one.worse), clients: mean(|one| one.clients) })
    }

    /// `3/20`, or on average `2.3/20`.
    pub(crate) fn text(self) -> String {
        let short = |count: f64| {
            if count.fract() == 0.0 { format!("{count:.0}") } else { format!("{count:.1}") }
        };
        format!("{}/{}", short(self.worse), short(self.clients))
    }

    /// A cell of the column, in parentheses for a method without personal models.
    pub(crate) fn cell(found: Option<Self>, personal: bool) -> Figure {
        let text = found.map_or_else(|| "–".to_owned(), Self::text);
        Figure::of(text, !personal && found.is_some(), None)
    }

    /// The column, empty where nobody trains alone.
    pub(crate) fn column(each: impl Iterator<Item = (Option<Self>, bool)> + Clone) -> Vec<Figure> {
        if each.clone().all(|(found, _)| found.is_none()) {
            return Vec::new();
        }
        each.map(|(found, personal)| Self::cell(found, personal)).collect()
    }
}

/// The column of a table of one run.
pub(crate) fn column(rows: &[Row]) -> Vec<Figure> {
    let each = rows
        .iter()
        .map(|row| (MeanWorseOff::of(std::iter::once(row.worse_than_alone)), row.personal));
    MeanWorseOff::column(each)
}

/// What clients served at last in place of their personal models, if they had a choice.
pub(crate) fn guard_note<'r>(
    each: impl Iterator<Item = (&'r str, Option<&'r Guarded>)>,
) -> Option<String> {
    let told = each.filter_map(|(name, found)| {
        let Guarded { clients, personal, generic, shares } = found?;
        let between = clients - personal - generic;
        let shares: Vec<String> = shares.iter().map(|share| format!("{share:.2}")).collect();
        let shares = match &shares[..] {
            [bands @ .., head] if !bands.is_empty() => {
                format!("{} from low to high frequencies, {head} of the head", bands.join(", "))
            }
            all => all.join(", "),
        };
        Some(format!("{name} {personal} / {generic} / {between}, mean share of the PM {shares}"))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "PMs are what clients serve by evaluation.guard (at last: the PM as trained / the GM / between the two): {}.",
            told.join("; ")
        )
    })
}

/// What clients of several runs served: counts are sums, shares means over clients.
pub(crate) fn guards<'r>(runs: impl Iterator<Item = Option<&'r Guarded>>) -> Option<Guarded> {
    runs.flatten().fold(None, |sum: Option<Guarded>, one| {
        let Some(sum) = sum.filter(|sum| sum.shares.len() == one.shares.len()) else {
            return Some(one.clone());
        };
        let clients = sum.clients + one.clients;
        let weigh = |guarded: &Guarded, share: f64| share * guarded.clients as f64;
        let both = sum.shares.iter().zip(&one.shares);
        let shares = both.map(|(a, b)| (weigh(&sum, *a) + weigh(one, *b)) / clients as f64);
        Some(Guarded {
            clients,
            personal: sum.personal + one.personal,
            generic: sum.generic + one.generic,
            shares: shares.collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_those_compared_and_means_over_runs() {
        let one = |worse, clients| Some(WorseOff { worse, clients });
        let text = |runs: &[Option<WorseOff>]| {
            MeanWorseOff::of(runs.iter().copied()).map(MeanWorseOff::text)
        };
        assert_eq!(text(&[one(3, 20)]).unwrap(), "3/20");
        assert_eq!(text(&[one(3, 20), one(2, 20), one(2, 20)]).unwrap(), "2.3/20");
        assert_eq!(text(&[one(1, 19), one(1, 20)]).unwrap(), "1/19.5");
        assert_eq!(text(&[one(1, 20), None]), None);
        assert_eq!(text(&[]), None);
        assert!(MeanWorseOff::column([(None, true)].into_iter()).is_empty());
    }

    #[test]
    fn guards_of_several_runs_are_added_up() {
        let guarded = |clients, personal, generic, shares: &[f64]| Guarded {
            clients,
            personal,
            generic,
            shares: shares.to_vec(),
        };
        let (one, two) = (guarded(4, 1, 2, &[0.5]), guarded(12, 6, 0, &[0.75]));
        let sum = guards([Some(&one), None, Some(&two)].into_iter()).unwrap();
        assert_eq!(sum, guarded(16, 7, 2, &[0.6875]));
        let note = guard_note([("Ditto", Some(&sum)), ("Local", None)].into_iter()).unwrap();
        assert!(note.ends_with(": Ditto 7 / 2 / 7, mean share of the PM 0.69."), "{note}");
        let bands = guarded(2, 0, 0, &[1.0, 0.5, 0.25, 0.0]);
        let note = guard_note([("SCD", Some(&bands))].into_iter()).unwrap();
        let end = "1.00, 0.50, 0.25 from low to high frequencies, 0.00 of the head.";
        assert!(note.ends_with(end), "{note}");
        assert_eq!(guard_note([("Local", None)].into_iter()), None);
    }
}
