/* An ordinary program, whatever its argument: what is around it differs. */
#include "life.h"

int main(void) {
    life_start();
    life_round();
    say("ok");
    return 0;
}
