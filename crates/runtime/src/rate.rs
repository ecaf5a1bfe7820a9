//! How learning rates go over the rounds of a run.

use formant_methods::Moment;

/// What the learning rate of a round is, as a share of the one that is set. It follows from the round
/// alone, so it does not matter where a phase runs or what was resumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSchedule {
    /// `W`: rounds in which the rate rises to what is set: round `r ≤ W` has `r / (W + 1)` of it.
    pub warmup: usize,
    /// How it goes on from there.
    pub curve: Curve,
}

/// A curve over the rounds after the warm-up. The first of them has `t = 0`, and there are `T`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Curve {
    /// 1.
    Constant,
    /// `γᵗ`.
    Exponential {
        /// `γ`.
        decay: f64,
    },
    /// `γ^⌊t / k⌋`.
    Step {
        /// `γ`.
        decay: f64,
        /// `k`: rounds from one step to the next.
        step_every: usize,
    },
    /// `f + (1 − f) (1 + cos(π t / T)) / 2`.
    Cosine {
        /// `f`: where it would end after the last round.
        floor: f64,
    },
}

impl RateSchedule {
    /// The rate that is set, in every round.
    pub const CONSTANT: Self = Self { warmup: 0, curve: Curve::Constant };

    /// The share of a round, counted from 1; before all rounds, that of the first.
    pub fn share(&self, at: Moment) -> f64 {
        let round = at.round.max(1);
        if round <= self.warmup {
            return round as f64 / (self.warmup as f64 + 1.0);
        }
        let t = (round - self.warmup) as f64 - 1.0;
        // In software, like all randomness: the same bits on every machine.
        match self.curve {
            Curve::Constant => 1.0,
            Curve::Exponential { decay } => libm::pow(decay, t),
            Curve::Step { decay, step_every } => libm::pow(decay, (t / step_every as f64).floor()),
            Curve::Cosine { floor } => {
                let whole = at.rounds.saturating_sub(self.warmup).max(1) as f64;
                let angle = core::f64::consts::PI * (t / whole).min(1.0);
                floor + (1.0 - floor) * f64::midpoint(1.0, libm::cos(angle))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(schedule: RateSchedule, rounds: usize) -> Vec<f64> {
        (1..=rounds).map(|round| schedule.share(Moment { round, rounds })).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close && found.len() == expected.len(), "{found:?} for {expected:?}");
    }

    #[test]
    fn every_curve_begins_at_what_is_set() {
        let curves = [
            Curve::Constant,
            Curve::Exponential { decay: 0.5 },
            Curve::Step { decay: 0.5, step_every: 2 },
            Curve::Cosine { floor: 0.2 },
        ];
        let expected = [
            [1.0, 1.0, 1.0, 1.0],
            [1.0, 0.5, 0.25, 0.125],
            [1.0, 1.0, 0.5, 0.5],
            // cos 0, π/4, π/2, 3π/4.
            [1.0, 0.882_842_712_474_619, 0.6, 0.317_157_287_525_381],
        ];
        for (curve, expected) in curves.into_iter().zip(expected) {
            assert_close(&shares(RateSchedule { warmup: 0, curve }, 4), &expected);
            // After a warm-up, the same over the rounds that are left.
            let warm = shares(RateSchedule { warmup: 3, curve }, 7);
            assert_close(&warm, &[&[0.25, 0.5, 0.75], &expected[..]].concat());
        }
    }

    /// `make.py` beside the fixtures of `formant-numerics` writes what PyTorch's schedulers give; warm-up is
    /// its `LinearLR` from `1 / (W + 1)`, put before the others by `SequentialLR`.
    #[test]
    fn all_curves_agree_with_pytorch() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../tests/fixtures/schedules.json")).unwrap();
        assert_eq!(cases.len(), 15);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let curve = match case["curve"].as_str().unwrap() {
                "constant" => Curve::Constant,
                "exponential" => Curve::Exponential { decay: number("decay") },
                "step" => Curve::Step {
                    decay: number("decay"),
                    step_every: number("step_every") as usize,
                },
                "cosine" => Curve::Cosine { floor: number("floor") },
                other => panic!("{other}"),
            };
            let expected: Vec<f64> =
                case["shares"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            let warmup = number("warmup") as usize;
            assert_close(&shares(RateSchedule { warmup, curve }, expected.len()), &expected);
        }
    }

    #[test]
    fn a_decay_is_what_it_always_was_to_the_last_bit() {
        for decay in [1.0, 0.99, 0.3] {
            let schedule = RateSchedule { warmup: 0, curve: Curve::Exponential { decay } };
            for round in [1, 2, 57] {
                let expected = libm::pow(decay, round as f64 - 1.0);
                assert_eq!(schedule.share(Moment { round, rounds: 60 }), expected);
            }
        }
    }

    #[test]
    fn a_round_beyond_the_last_has_what_the_cosine_ends_with() {
        let schedule = RateSchedule { warmup: 2, curve: Curve::Cosine { floor: 0.1 } };
        for at in [Moment { round: 13, rounds: 10 }, Moment { round: 3, rounds: 1 }] {
            let share = schedule.share(at);
            assert!((0.1 - 1e-12..=1.0).contains(&share), "{share}");
        }
    }
}
