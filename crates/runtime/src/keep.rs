//! What of its models a run keeps, decided before it begins: the limit, not the disk, says what is
//! left out.

use crate::{MethodPlan, RunPlan, Task};
use formant_methods::{MethodError, Newcomer};
use formant_model::{BROADCAST_BESIDES, Card, MethodName, Role, encoded_len};
use formant_numerics::Model;

formant_methods::choice! {
    /// Which models a run keeps.
    pub enum Keep {
        /// Generic and personal ones.
        All = "all",
        /// Generic ones.
        Generic = "generic",
        /// None.
        None = "none",
    }
}

/// What is kept of one method's models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The generic model of the last and of the best round.
    pub generic: bool,
    /// Every client's own.
    pub personal: bool,
    /// Bytes of what is kept.
    pub bytes: u64,
    /// Bytes of what was to be kept and would pass the limit.
    pub beyond: u64,
}

impl RunPlan {
    /// What is kept of each method's models. Generic models come first, then the personal ones of one
    /// method after the other, as long as they fit below the limit.
    pub fn kept(&self) -> Vec<Kept> {
        let clients = self.federation.clients.len();
        // The longest card that a model of the run can have.
        let longest = self.methods.iter().max_by_key(|method| method.label.len());
        let one = longest.map_or(0, |method| {
            let role = Role::Personal { client: clients, name: None };
            encoded_len(self.engine.network().layout(), &self.card_of(method, role, self.rounds))
        });
        let clients = clients as u64;
        let mut room = self.keep_limit;
        let mut fits = |bytes: u64| {
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits
        };
        // The generic model of the last and of the best round, and what newcomers need besides.
        let common = self.methods.iter().map(|method| 2 * one + self.broadcast_bytes(method));
        let common: Vec<u64> = common.collect();
        let generic: Vec<bool> =
            common.iter().map(|bytes| self.keep != Keep::None && fits(*bytes)).collect();
        let mut kept = Vec::new();
        for ((method, common), generic) in self.methods.iter().zip(common).zip(generic) {
            let wanted = [
                (self.keep != Keep::None, common),
                (self.keep == Keep::All && method.method.entry().personal, clients * one),
            ];
            let personal = wanted[1].0 && generic && fits(wanted[1].1);
            let wanted: u64 = wanted.iter().filter(|(is, _)| *is).map(|(_, bytes)| bytes).sum();
            let bytes = if generic { common } else { 0 } + if personal { clients * one } else { 0 };
            kept.push(Kept { generic, personal, bytes, beyond: wanted - bytes });
        }
        kept
    }

    /// Whether what more rounds would need is kept of each method: its server's and its clients' states. They
    /// come after all models, if everything is kept and as long as they fit below the limit.
    pub fn extensible(&self) -> Result<Vec<bool>, MethodError> {
        let models: u64 = self.kept().iter().map(|kept| kept.bytes).sum();
        let (mut room, clients) =
            (self.keep_limit.saturating_sub(models), self.federation.clients.len());
        let init = self.init();
        let mut extensible = Vec::new();
        for MethodPlan { method, .. } in &self.methods {
            let server = method.start_server(&init);
            // The server's state and its last broadcast; a state and perhaps an upload of each client.
            let own = server.encoded_len()? + method.broadcast(&server)?.encoded_len()?;
            let each = method.start_client(&init).encoded_len()?;
            let bytes = (own + clients * each) as u64;
            let fits = self.keep == Keep::All && bytes <= room;
            room -= if fits { bytes } else { 0 };
            extensible.push(fits);
        }
        Ok(extensible)
    }

    /// Bytes of the file that a method's newcomers need besides the generic model; 0 if they need none.
    fn broadcast_bytes(&self, method: &MethodPlan) -> u64 {
        let (method, layout) = (&*method.method, self.engine.network().layout());
        if !method.entry().personal {
            return 0;
        }
        // Sizes do not depend on values.
        let model = Model {
            parameters: vec![0.0; layout.parameters()],
            buffers: vec![0.0; layout.buffer_values()],
        };
        let bytes = || {
            let got = method.broadcast(&method.start_server(&model))?;
            let alone = method.entry().generic && method.broadcast_of(&model).is_some();
            if alone || method.newcomer(&got)? == Newcomer::FineTuning {
                return Ok(0);
            }
            Ok::<_, MethodError>((got.encoded_len()? + BROADCAST_BESIDES) as u64)
        };
        // What cannot be told now is told when it is written.
        bytes().unwrap_or(0)
    }

    /// The card of a model of this run.
    pub fn card_of(&self, method: &MethodPlan, role: Role, round: usize) -> Card {
        method.card(&self.card, role, round)
    }
}

impl Task {
    /// The card of a model of this method.
    pub fn card_of(&self, role: Role, round: usize) -> Card {
        self.method.card(&self.card, role, round)
    }
}

impl MethodPlan {
    /// The card of one of its models, with what all models of the run have in common.
    fn card(&self, common: &Card, role: Role, round: usize) -> Card {
        let name = self.method.entry().name.into();
        Card {
            method: MethodName { label: self.label.clone(), name },
            role,
            round: round as u64,
            ..common.clone()
        }
    }
}
