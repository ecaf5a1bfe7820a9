//! Virtual devices and links: how long a client computes and how long its bytes travel.
//!
//! Every client's device and link are drawn once, from the seed; what varies from round to round
//! (jitter, lost packets) is drawn from the address of the round. So a virtual clock depends on
//! nothing but the experiment.

use formant_numerics::{Rng, Stream};

/// What a fleet's devices and links are like.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Samples that the median device trains in a second.
    pub samples_per_second: f64,
    /// Spread of the devices: the standard deviation of the logarithm of their speed.
    pub device_spread: f64,
    /// Bytes a second from the median client.
    pub up: f64,
    /// Bytes a second to the median client.
    pub down: f64,
    /// Spread of the links, as of the devices.
    pub link_spread: f64,
    /// Seconds until the first byte arrives.
    pub latency: f64,
    /// Most seconds that are added to it at random.
    pub jitter: f64,
    /// Share of the packets that have to be sent again.
    pub loss: f64,
}

/// One client's device and link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equipment {
    samples_per_second: f64,
    up: f64,
    down: f64,
    latency: f64,
    jitter: f64,
    loss: f64,
}

impl Profile {
    /// Whether nothing takes time.
    pub fn is_instant(&self) -> bool {
        let endless = |rate: f64| rate == f64::INFINITY;
        endless(self.samples_per_second)
            && endless(self.up)
            && endless(self.down)
            && self.latency + self.jitter == 0.0
    }

    /// The equipment of a client.
    pub fn draw(&self, seed: u64, client: usize) -> Equipment {
        let mut rng = Rng::new(seed, Stream::Equipment, 0, client as u64);
        // Log-normal: speeds are positive, and a device twice as fast is as likely as one half as
        // fast. Always three draws, so that one spread does not change what another draws.
        let mut factor = |spread: f64| libm::exp(spread * rng.normal());
        let device = factor(self.device_spread);
        let (up, down) = (factor(self.link_spread), factor(self.link_spread));
        Equipment {
            samples_per_second: self.samples_per_second * device,
            up: self.up * up,
            down: self.down * down,
            latency: self.latency,
            jitter: self.jitter,
            loss: self.loss,
        }
    }
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

impl Equipment {
    /// Seconds for training on so many samples.
    pub fn compute(&self, samples: f64) -> f64 {
        samples / self.samples_per_second
    }

    /// Samples that are trained on in so many seconds.
    pub fn samples(&self, seconds: f64) -> f64 {
        seconds * self.samples_per_second
    }

    /// Seconds until a message without weight arrives.
    pub fn latency(&self) -> f64 {
        self.latency
    }

    /// Seconds for so many bytes. Packets that are lost are sent again, which takes bandwidth.
    pub fn transfer(&self, bytes: u64, way: Way, rng: &mut Rng) -> f64 {
        let rate = match way {
            Way::Up => self.up,
            Way::Down => self.down,
        };
        let delay = self.latency + self.jitter * rng.uniform();
        delay + bytes as f64 / (rate * (1.0 - self.loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: Profile = Profile {
        samples_per_second: 1_000.0,
        device_spread: 0.5,
        up: 1e6,
        down: 4e6,
        link_spread: 0.0,
        latency: 0.02,
        jitter: 0.0,
        loss: 0.0,
    };

    #[test]
    fn equipment_is_drawn_from_the_seed_around_the_median() {
        let speeds = |seed: u64| -> Vec<f64> {
            (0..1_001).map(|client| PROFILE.draw(seed, client).samples_per_second).collect()
        };
        assert_eq!(speeds(1), speeds(1));
        assert_ne!(speeds(1), speeds(2));
        let mut sorted = speeds(1);
        sorted.sort_by(f64::total_cmp);
        assert!((sorted[500] / 1_000.0 - 1.0).abs() < 0.1, "{}", sorted[500]);
        // One standard deviation: a factor of e^½.
        assert!((sorted[841] / sorted[500] / 0.5f64.exp() - 1.0).abs() < 0.1);
    }

    #[test]
    fn times_are_what_the_units_say() {
        let even = Profile { device_spread: 0.0, ..PROFILE }.draw(1, 0);
        assert_eq!((even.compute(500.0), even.samples(0.5)), (0.5, 500.0));
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        assert!((even.transfer(2_000_000, Way::Up, &mut rng) - 2.02).abs() < 1e-12);
        assert!((even.transfer(2_000_000, Way::Down, &mut rng) - 0.52).abs() < 1e-12);
        let lossy = Profile { loss: 0.5, device_spread: 0.0, ..PROFILE }.draw(1, 0);
        assert!((lossy.transfer(2_000_000, Way::Up, &mut rng) - 4.02).abs() < 1e-12);
    }
}
