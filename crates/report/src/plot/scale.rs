//! From values to pixels, with round ticks.

/// A linear or logarithmic axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// Maps `low..=high` to pixels `from..=to`. Without extent, the range is widened a little.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) = if low < high { (low, high) } else { (low - 0.5, low + 0.5) };
        Self { low, high, from, to, logarithmic: false }
    }

    /// The same by orders of magnitude; both ends must be positive.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let inner = Self::linear(low.log10(), high.log10(), from, to);
        Self { logarithmic: true, ..inner }
    }

    /// Where a value goes; values beyond the range go to its ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + self.share(value).clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The same for lines, which leave the frame at their own slope and are clipped there.
    pub(super) fn extend(&self, value: f64) -> f64 {
        self.from + self.share(value).clamp(-20.0, 20.0) * (self.to - self.from)
    }

    /// Whether a value lies within the range.
    pub(super) fn holds(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    fn share(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    /// Round values within the range, about `wanted` of them, and how to write each.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        if self.logarithmic { self.magnitudes(wanted) } else { self.steps(wanted) }
    }

    fn steps(&self, wanted: usize) -> Vec<(f64, String)> {
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil();
        let number = ((self.high / step + 1e-9).floor() - first).clamp(0.0, 100.0) as usize;
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let tick = |place: usize| {
            // Adding zero turns a negative zero into a plain one.
            let value = (first + place as f64) * step + 0.0;
            (value, format!("{value:.decimals$}"))
        };
        (0..=number).map(tick).collect()
    }

    /// 1, 2 and 5 of every decade if they fit, else powers of ten, thinned out if those are many.
    fn magnitudes(&self, wanted: usize) -> Vec<(f64, String)> {
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let within = |value: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10());
        let all = |leads: &[f64]| -> Vec<f64> {
            let decades = (first..=last).flat_map(|decade| leads.iter().map(move |l| (l, decade)));
            decades.map(|(lead, decade)| lead * 10f64.powi(decade)).filter(within).collect()
        };
        let mut values = all(&[1.0, 2.0, 5.0]);
        if values.len() > wanted + 2 {
            values = all(&[1.0]);
        }
        let every = values.len().div_ceil(wanted + 2).max(1);
        values.into_iter().step_by(every).map(|value| (value, magnitude(value))).collect()
    }
}

/// The smallest of 1, 2, 5 and their tenfolds that is not below `least`.
pub(super) fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let decade = 10f64.powf(least.log10().floor());
    let lead = [1.0, 2.0, 5.0].into_iter().find(|lead| lead * decade >= least * (1.0 - 1e-9));
    lead.unwrap_or(10.0) * decade
}

fn magnitude(value: f64) -> String {
    if (1e-3..1e5).contains(&value) { format!("{value}") } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scale: &Scale, wanted: usize) -> String {
        scale.ticks(wanted).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(written(&Scale::linear(0.0, 40.0, 0.0, 1.0), 5), "0 10 20 30 40");
        assert_eq!(written(&Scale::linear(0.62, 0.81, 0.0, 1.0), 4), "0.65 0.70 0.75 0.80");
        assert_eq!(written(&Scale::linear(-1.0, 1.0, 0.0, 1.0), 4), "-1.0 -0.5 0.0 0.5 1.0");
    }

    #[test]
    fn a_single_value_still_has_an_axis() {
        let scale = Scale::linear(3.0, 3.0, 0.0, 100.0);
        assert_eq!(scale.place(3.0), 50.0);
        assert!(!scale.ticks(4).is_empty());
    }

    #[test]
    fn logarithmic_ticks_get_sparser_as_the_range_grows() {
        assert_eq!(written(&Scale::logarithmic(0.5, 20.0, 0.0, 1.0), 5), "0.5 1 2 5 10 20");
        assert_eq!(written(&Scale::logarithmic(0.1, 1e4, 0.0, 1.0), 5), "0.1 1 10 100 1000 10000");
        assert!(Scale::logarithmic(1e-300, 1e300, 0.0, 1.0).ticks(5).len() <= 8);
    }

    #[test]
    fn values_beyond_the_range_stay_on_the_plot() {
        let scale = Scale::linear(0.0, 1.0, 200.0, 10.0);
        assert_eq!(
            [-5.0, 0.0, 0.5, 7.0].map(|value| scale.place(value)),
            [200.0, 200.0, 105.0, 10.0]
        );
        assert_eq!(scale.extend(2.0), -180.0);
        assert!(scale.holds(1.0) && !scale.holds(1.1));
    }
}
