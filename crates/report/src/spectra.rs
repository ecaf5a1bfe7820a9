//! How the spectra of personal models lie to the generic one's, round by round, and what a method's own
//! terms have added to the loss.

use formant_runtime::event::{ClientSpectra, Phase, Spectra};
use serde::Serialize;

use crate::{MethodLog, RunLog};

/// A method's spectra over its rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpectralCourse {
    /// The method's label.
    pub label: String,
    /// The clients whose models were looked at.
    pub clients: Vec<usize>,
    /// At every evaluation, the means over these clients.
    pub rounds: Vec<Apart>,
    /// What the method's terms were, by round and phase.
    pub terms: Vec<TermShare>,
}

/// How far personal models are from the generic one, the means over the clients that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Apart {
    /// Rounds completed; 0 is before training.
    pub round: usize,
    /// `D(P‖Q)` of the normalised magnitudes, PM against GM, over all bins.
    pub divergence: f64,
    /// The same over the lowest tenth of the bins.
    pub low_divergence: f64,
    /// `‖w_p − w_G‖ / ‖w_G‖`.
    pub distance: f64,
}

/// What a method's terms have added to the loss in a round, the means over clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TermShare {
    /// Counted from 1.
    pub round: usize,
    /// Which of the two.
    pub phase: Phase,
    /// The terms, weights included.
    pub term: f64,
    /// The whole objective, terms included.
    pub loss: f64,
}

impl TermShare {
    /// The terms' part of the objective; absent where that is not positive.
    pub fn share(&self) -> Option<f64> {
        (self.loss > 0.0).then(|| self.term / self.loss)
    }
}

impl SpectralCourse {
    /// How far the models are from each other at the end.
    pub fn last(&self) -> Option<&Apart> {
        self.rounds.last()
    }

    /// The mean over rounds of the terms' part of the objective in a phase.
    pub fn term_share(&self, phase: Phase) -> Option<f64> {
        let shares = self.terms.iter().filter(|term| term.phase == phase);
        mean(shares.filter_map(TermShare::share))
    }
}

/// The spectra of every method, in the run's order.
pub fn spectral_courses(log: &RunLog) -> Vec<SpectralCourse> {
    log.methods.iter().map(course).collect()
}

fn course(method: &MethodLog) -> SpectralCourse {
    let newest = method.spectra.values().next_back();
    SpectralCourse {
        label: method.info.label.clone(),
        clients: newest
            .map(|spectra| spectra.clients.iter().map(|client| client.client).collect())
            .unwrap_or_default(),
        rounds: method.spectra.values().filter_map(apart).collect(),
        terms: terms(method),
    }
}

fn apart(spectra: &Spectra) -> Option<Apart> {
    let over = |of: fn(&ClientSpectra) -> f64| mean(spectra.clients.iter().map(of));
    Some(Apart {
        round: spectra.round,
        divergence: over(|client| client.divergence)?,
        low_divergence: over(|client| client.low_divergence)?,
        distance: over(|client| client.distance)?,
    })
}

fn terms(method: &MethodLog) -> Vec<TermShare> {
    let mut found = Vec::new();
    for (&round, done) in &method.rounds {
        for phase in [Phase::Shared, Phase::Personal] {
            let totals = done.phase(phase);
            if let (Some(loss), Some(term)) = (totals.mean_loss(), totals.mean_terms()) {
                found.push(TermShare { round, phase, term, loss });
            }
        }
    }
    found
}

/// The mean of finite figures, if there is one.
pub(crate) fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, number) = figures
        .filter(|figure| figure.is_finite())
        .fold((0.0, 0usize), |(sum, number), figure| (sum + figure, number + 1));
    (number > 0).then(|| sum / number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_the_clients_that_were_looked_at() {
        let client = |client, divergence| ClientSpectra {
            client,
            divergence,
            low_divergence: divergence / 2.0,
            distance: 1.0,
            layers: None,
        };
        let clients = vec![client(3, 0.1), client(7, 0.3), client(8, f64::NAN)];
        let spectra = Spectra { method: "scd".to_owned(), round: 4, gm: None, clients };
        let found = apart(&spectra).unwrap();
        assert!((found.divergence - 0.2).abs() < 1e-12);
        assert!((found.low_divergence - 0.1).abs() < 1e-12);
        assert_eq!((found.round, found.distance), (4, 1.0));
        assert!(apart(&Spectra { clients: Vec::new(), ..spectra }).is_none());
    }

    #[test]
    fn a_share_needs_a_positive_objective() {
        let at = |term, loss| TermShare { round: 1, phase: Phase::Shared, term, loss }.share();
        assert_eq!(at(0.5, 2.0), Some(0.25));
        assert_eq!(at(0.5, 0.0), None);
        assert_eq!(at(-0.5, -1.0), None);
    }
}
