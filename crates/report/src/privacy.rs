//! What differential privacy has cost, in words.

use formant_runtime::event::{NoiseSource, Place, Spent};

/// In one sentence: `ε = 7.99 at δ = 1e-5 for each client against whoever sees the models (…)`.
pub fn spent(spent: &Spent) -> String {
    let Spent { epsilon, delta, place, clip, noise_multiplier, noise } = spent;
    let against = match place {
        Place::Server => "whoever sees the generic models; the server is trusted",
        Place::Client => "whoever sees its uploads, the server included",
    };
    let source = match noise {
        NoiseSource::Keyed => "keyed by the seed: a simulation protects nobody",
        NoiseSource::System => "from the operating system",
    };
    format!(
        "ε = {} at δ = {delta:e} for each client against {against} (clip {clip}, noise multiplier {}, noise {source})",
        // A promise may not shrink in the telling.
        digits(*epsilon, f64::ceil),
        digits(*noise_multiplier, f64::floor),
    )
}

/// Three digits.
fn digits(figure: f64, whole: fn(f64) -> f64) -> String {
    if figure == 0.0 || !figure.is_finite() {
        return figure.to_string();
    }
    let places = (2 - figure.abs().log10().floor() as i32).max(0);
    let unit = 10f64.powi(places);
    let units = figure * unit;
    // What is a whole number of units but for rounding is left as it is.
    let near = (units - units.round()).abs() < 1e-9 * units;
    let rounded = if near { units.round() } else { whole(units) } / unit;
    format!("{rounded:.*}", places as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_never_less_than_was_spent() {
        for (figure, shown) in [
            (7.991, "8.00"),
            (0.123_41, "0.124"),
            (1.0, "1.00"),
            (123.4, "124"),
            (12_345.6, "12346"),
            (0.0, "0"),
        ] {
            assert_eq!(digits(figure, f64::ceil), shown);
        }
        assert_eq!([7.999, 0.3].map(|figure| digits(figure, f64::floor)), ["7.99", "0.300"]);
    }

    #[test]
    fn it_says_to_whom_and_where_noise_came_from() {
        let server = Spent {
            epsilon: 2.5,
            delta: 1e-5,
            place: Place::Server,
            clip: 0.5,
            noise_multiplier: 4.0,
            noise: NoiseSource::System,
        };
        assert_eq!(
            spent(&server),
            "ε = 2.50 at δ = 1e-5 for each client against whoever sees the generic models; the server is trusted \
             (clip 0.5, noise multiplier 4.00, noise from the operating system)"
        );
        let client = Spent { place: Place::Client, noise: NoiseSource::Keyed, ..server };
        let told = spent(&client);
        assert!(told.contains("the server included") && told.contains("protects nobody"), "{told}");
    }
}
